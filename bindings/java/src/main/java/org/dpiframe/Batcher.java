package org.dpiframe;

import java.lang.ref.Reference;
import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.function.LongFunction;
import java.util.function.Supplier;
import org.dpiframe.internal.DpiNative;

/**
 * Merges concurrent small requests to a model or an endpoint into one chunk, so that a busy service computes more rows a second. A request on
 * an idle machine starts at once. {@link #predict} waits for its scores; {@link #submit} returns at once and completes a future. Any number of
 * threads may use one.
 *
 * <pre>{@code
 * try (Batcher batcher = endpoint.newBatcher(new Options().set("batch.max_delay_us", "200"))) {
 *   batcher.predict(batch, scores);                                             // any number of threads at once
 *   batcher.submit(batch, scores, null).thenAccept(done -> use(done.scores()));
 * }
 * }</pre>
 */
public final class Batcher implements AutoCloseable {
  /** How a submitted request ended well: its scores, which version scored them, how long it waited and how long its chunk ran. */
  public record Completion(Scores scores, long version, long queuedNanos, long runNanos) {}

  /** Makes the handle: dpi_batcher_create and its like. */
  interface Create {
    int create(long options, long out, long error);
  }

  private final Guard guard;
  private Completions completions;
  private final Supplier<Schema.Shape> shape;
  private final Object of;  // the model or endpoint, which must not be lost before

  /** {@code under}: what the native batcher needs longer than itself; null when it keeps that itself. */
  Batcher(Object of, Guard under, Supplier<Schema.Shape> shape, Options options, Create create) {
    this.of = of;
    this.shape = shape;
    CallBlock call = new CallBlock();
    if (under != null) under.enter();
    boolean made = false;
    try {
      guard = make(under, options, create, call);
      made = true;
    } finally {
      if (!made && under != null) under.exit();
    }
  }

  private Guard make(Guard under, Options options, Create create, CallBlock call) {
    long nativeOptions = ModelBuilder.nativeOptions(options != null ? options : new Options(), null, call);
    try {
      call.extraLong(0, 0);
      call.check(create.create(nativeOptions, call.extra(), call.error()));
    } finally {
      DpiNative.dpi_options_free(nativeOptions);
    }
    long handle = call.extraLong(0);
    completions = new Completions(handle, under);
    return Guard.of(this, "the batcher", handle, completions::end);
  }

  /** Scores the batch in one chunk with other callers' requests: the scores of {@link Model#predict(Batch, Scores)}. */
  public void predict(Batch batch, Scores scores) {
    predict(batch, scores, null);
  }

  /**
   * The same under a deadline or a cancel flag; {@code control} may be null. {@link DpiException.QueueFull} when too many requests
   * wait, {@link DpiException.Timeout} also when the deadline cannot be met.
   */
  public void predict(Batch batch, Scores scores, Control control) {
    Objects.requireNonNull(batch, "batch").score(guard, Batch.On.BATCHER, shape.get(), scores, control);
    Reference.reachabilityFence(this);
  }

  /** Scores raw rows, as {@link Rows#predict(Scores, Control)} does, in one chunk with other callers'; {@code control} may be null. */
  public void predict(Rows rows, Scores scores, Control control) {
    Objects.requireNonNull(rows, "rows");
    inside(handle -> {
      rows.predictThrough(handle, scores, control);
      return null;
    });
  }

  /**
   * Leaves the batch with the batcher and returns. The batch may change at once; {@code scores} are the batcher's until the future is done, and
   * {@code control} (may be null) is looked at until then. The future fails with a {@link DpiException}. Its {@code cancel} also takes the request
   * back, and is false when the scores are there already. What depends on the future without an executor runs on the thread that takes
   * completions: it may submit and cancel, and must not wait or close.
   */
  public CompletableFuture<Completion> submit(Batch batch, Scores scores, Control control) {
    Objects.requireNonNull(batch, "batch");
    Job job = new Job(this, Objects.requireNonNull(scores, "scores"), control);
    Schema.Shape known = shape.get();
    return submitted(job, handle -> batch.submit(handle, known, job));
  }

  /** The same for raw rows, which may be cleared and filled again at once. */
  public CompletableFuture<Completion> submit(Rows rows, Scores scores, Control control) {
    Objects.requireNonNull(rows, "rows");
    Job job = new Job(this, Objects.requireNonNull(scores, "scores"), control);
    return submitted(job, handle -> rows.submit(handle, job));
  }

  /** {@code call} throws what the library refuses. */
  private CompletableFuture<Completion> submitted(Job job, java.util.function.LongConsumer call) {
    return inside(handle -> {
      completions.add(job);
      boolean left = false;
      try {
        call.accept(handle);
        left = true;
      } finally {
        if (!left) completions.drop(job);
      }
      return job;
    });
  }

  /** Whether the request was taken back: it is not scored, and its scores are not written from now on. */
  boolean take(Job job) {
    try {
      return inside(handle -> DpiNative.dpi_batcher_cancel(handle, job.ticket(), 0) == 0);
    } catch (DpiException.Closed e) {
      return false;
    }
  }

  /** Runs {@code body} while nothing frees the handle. */
  private <T> T inside(LongFunction<T> body) {
    long handle = guard.enter();
    try {
      return body.apply(handle);
    } finally {
      guard.exit();
      Reference.reachabilityFence(this);
    }
  }

  /** What the batcher is, and counts of requests and chunks, as the C header says. */
  public String statusJson() {
    return inside(handle -> Native.json((buf, cap) -> DpiNative.dpi_batcher_status_json(handle, buf, cap)));
  }

  public boolean isClosed() {
    return guard.isClosed();
  }

  /** Takes back what waits, finishes what runs, and completes every future. Later calls fail with {@link DpiException.Closed}. */
  @Override
  public void close() {
    close(Duration.ZERO);
  }

  /** The same, but what waits has so long to finish; false when some of it was cancelled. Closing again does nothing. */
  public boolean close(Duration grace) {
    completions.refuseOwnThread();
    long deadline = Control.momentAfter(grace);
    try {
      CallBlock call = new CallBlock();
      call.check(inside(handle -> DpiNative.dpi_batcher_close(handle, deadline, call.error())));
      return true;
    } catch (DpiException.Timeout e) {
      return false;
    } catch (DpiException.Closed e) {
      return true;
    } finally {
      guard.close();
      Reference.reachabilityFence(of);
    }
  }
}
