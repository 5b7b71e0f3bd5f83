package org.dpiframe;

import java.lang.ref.Reference;
import java.util.Objects;
import org.dpiframe.internal.DpiNative;

/**
 * A handle for one thread with its own scratch memory, which spares {@link Model#predict(Batch, Scores)} its way through the
 * model's pool. Keeps the native model until it is closed. Use by two threads at once is refused with {@link
 * IllegalStateException}; a close during a call takes effect when the call leaves.
 */
public final class Context implements AutoCloseable {
  private final Guard guard;
  private final Schema.Shape shape;

  Context(long handle, Schema.Shape shape) {
    guard = Guard.of(this, "the context", handle, DpiNative::dpi_context_free);
    this.shape = shape;
  }

  /** Scores the batch on this context; {@code control} may be null. */
  public void predict(Batch batch, Scores scores, Control control) {
    Objects.requireNonNull(batch, "batch").score(guard, Batch.On.CONTEXT, shape, scores, control);
    Reference.reachabilityFence(this);
  }

  /** Scores the batch on this context. */
  public void predict(Batch batch, Scores scores) {
    predict(batch, scores, null);
  }

  @Override
  public void close() {
    guard.close();
  }
}
