package scoreservice;

import org.dpiframe.Batcher;
import org.dpiframe.Control;
import org.dpiframe.DpiException;
import org.dpiframe.Endpoint;
import org.dpiframe.Model;
import org.dpiframe.Rows;
import org.dpiframe.Scores;

/**
 * What one request needs while it is decoded and scored, and the next can use again. Its rows are encoded and scored by one version of the
 * model.
 */
final class Worker {
  final Scores scores;
  final Control control = new Control();
  private final Endpoint endpoint;
  private final Batcher batcher;  // null: each request is scored by itself
  private Model model;
  private Rows rows;
  private RowReader reader;

  Worker(Endpoint endpoint, Batcher batcher) {
    this.endpoint = endpoint;
    this.batcher = batcher;
    renew();
    scores = model.newScores(Limits.ROWS);
  }

  /** Goes over to the endpoint's current version; what fails leaves the worker as it was. */
  void renew() {
    if (model != null && model.info().version() == endpoint.version()) return;
    Model next = endpoint.acquire();
    Rows nextRows;
    try {
      nextRows = next.newRows();
    } catch (RuntimeException e) {
      next.close();
      throw e;
    }
    close();
    model = next;
    rows = nextRows;
    reader = new RowReader(next, nextRows);
  }

  void score(byte[] body, long deadline) throws Problem {
    renew();
    rows.clear();
    reader.read(body);
    try {
      control.deadlineNanos(deadline);
      if (batcher != null) {
        batcher.predict(rows, scores, control);
      } else {
        rows.predict(scores, control);
      }
    } catch (DpiException e) {
      throw reader.blame(e);
    }
  }

  void close() {
    if (model == null) return;
    rows.close();
    model.close();
  }
}
