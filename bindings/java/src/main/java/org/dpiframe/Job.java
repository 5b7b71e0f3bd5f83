package org.dpiframe;

import java.util.concurrent.CompletableFuture;

/** One submitted request until its completion. It holds everything whose memory the library writes to or reads until then. */
final class Job extends CompletableFuture<Batcher.Completion> {
  final Scores scores;
  private final Batcher batcher;
  private final Control control;
  private final Block block = new Block(2 * Long.BYTES);  // the ticket
  private int rows;
  private volatile boolean cancelling;
  long key;

  Job(Batcher batcher, Scores scores, Control control) {
    this.batcher = batcher;
    this.scores = scores;
    this.control = control;
  }

  Control control() {
    return control;
  }

  long ticketAddress() {
    return block.address;
  }

  long ticket() {
    return block.bytes.getLong(0);
  }

  /** Before it is submitted. */
  void rows(int rows) {
    this.rows = rows;
  }

  void succeed(long version, long queuedNanos, long runNanos) {
    scores.setRows(rows, version);
    complete(new Batcher.Completion(scores, version, queuedNanos, runNanos));
  }

  /** The completion of a request that is being taken back may be here first. */
  void fail(DpiException failed) {
    if (cancelling && failed instanceof DpiException.Cancelled) {
      super.cancel(true);
    } else {
      completeExceptionally(failed);
    }
  }

  /** Takes the request back; false when it was done already, and the future soon is. */
  @Override
  public boolean cancel(boolean mayInterrupt) {
    if (isDone()) return isCancelled();
    cancelling = true;
    return batcher.take(this) ? super.cancel(mayInterrupt) : isCancelled();
  }
}
