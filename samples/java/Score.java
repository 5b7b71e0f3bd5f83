import org.dpiframe.Batch;
import org.dpiframe.DpiException;
import org.dpiframe.Model;
import org.dpiframe.Scores;

/** The smallest program: load a bundle, score two rows of ids and floats (all 0 here), print the scores. */
public final class Score {
  public static void main(String[] args) {
    if (args.length != 1) {
      System.err.println("usage: Score BUNDLE");
      System.exit(2);
    }
    try (Model model = Model.load(args[0])) {
      Batch batch = model.batch().maxRows(2).build();
      for (int r = 0; r < 2; r++) {
        batch.addRow(new float[model.schema().denseDim()], new long[model.schema().slots()]);
      }
      Scores scores = model.predict(batch);
      for (int r = 0; r < scores.rows(); r++) {
        System.out.printf("row %d: %s = %.6f%n", r, model.schema().heads().get(0), scores.get(r));
      }
    } catch (DpiException e) {
      System.err.println(e.status() + ": " + e.getMessage());
      System.exit(1);
    }
  }
}
