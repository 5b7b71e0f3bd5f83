import org.dpiframe.DpiException;
import org.dpiframe.Feature;
import org.dpiframe.Model;
import org.dpiframe.Rows;
import org.dpiframe.Scores;

/** One user, many candidates: the user's features are given once, the candidates' per row (ids 0, 1, 2 .. and zeros here). */
public final class ScoreCandidates {
  private static final int CANDIDATES = 5;

  public static void main(String[] args) {
    if (args.length != 1) {
      System.err.println("usage: ScoreCandidates BUNDLE");
      System.exit(2);
    }
    try (Model model = Model.load(args[0]); Rows rows = model.newRows()) {
      if (model.schema().hasShared()) {
        rows.beginShared();  // the user to whom the rows begun from here on belong
        fill(rows, model, true, 0);
      }
      for (int c = 0; c < CANDIDATES; c++) {
        rows.begin();
        fill(rows, model, false, c);
      }
      Scores scores = rows.predict();
      for (int c = 0; c < scores.rows(); c++) System.out.printf("candidate %d: %.6f%n", c, scores.get(c));
    } catch (DpiException e) {
      System.err.println(e.status() + ": " + e.getMessage());
      System.exit(1);
    }
  }

  /** The user's features, or those of one candidate. */
  private static void fill(Rows rows, Model model, boolean shared, int id) {
    for (Feature f : model.schema().features()) {
      if (f.shared() != shared) continue;
      if (f.slot() >= 0) {
        rows.setIds(f.index(), new long[] {id % Math.max(1, f.vocabSize())}, null);
      } else {
        rows.setFloats(f.index(), new float[f.dim()]);
      }
    }
  }
}
