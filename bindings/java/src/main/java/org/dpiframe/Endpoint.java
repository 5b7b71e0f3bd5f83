package org.dpiframe;

import java.lang.ref.Reference;
import java.time.Duration;
import java.util.Objects;
import java.util.function.LongFunction;
import org.dpiframe.internal.DpiNative;

/**
 * A named place that always answers with its current version: {@link #load} builds the next one beside it and switches when it
 * has passed every check, while {@link #predict} goes on. Any number of threads may use one. {@link #close()} may be called by any thread at any
 * time: later calls fail with {@link DpiException.Closed}, and the memory goes when the last running call leaves.
 *
 * <pre>{@code
 * try (Endpoint ctr = new Endpoint("ctr", new Options().device(Device.CPU))) {
 *   ctr.follow("/srv/models/ctr");   // v0001.h5, v0002.h5 ..., each put there by rename
 *   ctr.await(1, Duration.ofMinutes(1));
 *   Batch batch = ctr.batch().maxRows(64).build();
 *   ...
 *   ctr.predict(batch, scores);      // scores.version() says which version it was
 * }
 * }</pre>
 */
public final class Endpoint implements AutoCloseable {
  private static final long SLICE_NANOS = 20_000_000;

  private final Guard guard;
  private volatile Schema schema;  // what its versions have in common, from the first one; null until there is one

  /** One without a version, with the defaults of all options, in {@link Environment#process()}. */
  public Endpoint(String name) {
    this(name, null, null);
  }

  /** The same; {@code options} are those of all its models. */
  public Endpoint(String name, Options options) {
    this(name, options, null);
  }

  /** The same; {@code options} null: all defaults, {@code environment} null: {@link Environment#process()}. */
  public Endpoint(String name, Options options, Environment environment) {
    Block text = Block.text("name", name);
    CallBlock call = new CallBlock();
    long nativeOptions = ModelBuilder.nativeOptions(options != null ? options : new Options(), environment, call);
    try {
      call.extraLong(0, 0);
      call.check(DpiNative.dpi_endpoint_create(text.address, nativeOptions, call.extra(), call.error()));
    } finally {
      DpiNative.dpi_options_free(nativeOptions);
      Reference.reachabilityFence(text);
    }
    guard = Guard.of(this, "the endpoint", call.extraLong(0), DpiNative::dpi_endpoint_free);
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

  /**
   * Any key that the C header lists under dpi_endpoint_set: keep_seconds, golden, warm_up_rows, follow_ms, back_off_ms,
   * update.bytes_per_second, update.spare_rows, record.path, record.share, record.bytes, record.bytes_per_second.
   */
  public Endpoint set(String key, String value) {
    CallBlock call = new CallBlock();
    Block k = Block.text("key", key);
    Block v = Block.text("value", value);
    call.check(inside(handle -> DpiNative.dpi_endpoint_set(handle, k.address, v.address, call.error())));
    Reference.reachabilityFence(k);
    Reference.reachabilityFence(v);
    return this;
  }

  /** Loads a bundle beside the version that serves and switches to it. What fails leaves everything as it was. */
  public void load(String path) {
    load(path, 0);
  }

  /** The same; {@code number} is what the version is called, 0 = one more than any that served. */
  public void load(String path, long number) {
    CallBlock call = new CallBlock();
    Block file = Block.text("path", path);
    call.check(inside(handle -> DpiNative.dpi_endpoint_load(handle, file.address, number, call.error())));
    Reference.reachabilityFence(file);
  }

  /** The version before the current one serves again; {@link DpiException.NotFound} when none is kept. */
  public void rollback() {
    CallBlock call = new CallBlock();
    call.check(inside(handle -> DpiNative.dpi_endpoint_rollback(handle, call.error())));
  }

  /** Loads the newest {@code v<number>.h5} of a folder from now on, soon after it comes there by rename. */
  public void follow(String folder) {
    CallBlock call = new CallBlock();
    Block path = Block.text("folder", folder);
    call.check(inside(handle -> DpiNative.dpi_endpoint_follow(handle, path.address, call.error())));
    Reference.reachabilityFence(path);
  }

  /** Ends that; a load that runs is finished. */
  public void unfollow() {
    inside(handle -> {
      DpiNative.dpi_endpoint_unfollow(handle);
      return null;
    });
  }

  /**
   * Follows a folder and brings deltas there from a stream, {@code kafka://host:port/topic}; package libdpi1-kafka. What the C header says under
   * dpi_endpoint_subscribe.
   */
  public void subscribe(String source, String folder) {
    CallBlock call = new CallBlock();
    Block from = Block.text("source", source);
    Block path = Block.text("folder", folder);
    call.check(inside(handle -> DpiNative.dpi_endpoint_subscribe(handle, from.address, path.address, call.error())));
    Reference.reachabilityFence(from);
    Reference.reachabilityFence(path);
  }

  /** Ends that; the folder is followed on. */
  public void unsubscribe() {
    inside(handle -> {
      DpiNative.dpi_endpoint_unsubscribe(handle);
      return null;
    });
  }

  /** Number of the current version, 0 = none. */
  public long version() {
    return inside(DpiNative::dpi_endpoint_version);
  }

  /** Returns when a version of this number or a higher one serves; {@link DpiException.Timeout} after that time. */
  public void await(long number, Duration timeout) {
    CallBlock call = new CallBlock();
    long end = Control.momentAfter(timeout);
    for (;;) {
      long left = end - System.nanoTime();
      long until = System.nanoTime() + Math.max(1, Math.min(left, SLICE_NANOS));  // slices, so that close() does not wait for long
      int code = inside(handle -> DpiNative.dpi_endpoint_wait(handle, number, until, call.error()));
      if (code == 0 || left <= SLICE_NANOS || code != Status.TIMEOUT.code()) {
        call.check(code);
        return;
      }
    }
  }

  /**
   * The current version as a model, which works until it is closed, whatever the endpoint loads: for what belongs to one version, such as
   * {@link Model#newRows}, {@link Model#newContext} and the schema. Its number is {@link ModelInfo#version()}.
   */
  public Model acquire() {
    CallBlock call = new CallBlock();
    call.extraLong(0, 0);
    call.check(inside(handle -> DpiNative.dpi_endpoint_acquire(handle, call.extra(), call.error())));
    return new Model(call.extraLong(0));
  }

  /** What the versions have in common; {@link DpiException.NotFound} as long as there is none. */
  private Schema known() {
    Schema known = schema;
    if (known != null) return known;
    try (Model model = acquire()) {
      return schema = model.schema();
    }
  }

  /** Starts building a batch, which fits every version. */
  public BatchBuilder batch() {
    return new BatchBuilder(known());
  }

  /** Room for the scores of up to {@code maxRows} rows. */
  public Scores newScores(int maxRows) {
    return new Scores(maxRows, known().shape().heads(), false);
  }

  /**
   * Merges concurrent small requests; {@code options} are those that the C header batcher.h lists, null: all defaults. It works on when the
   * endpoint is closed, whose memory goes after it.
   */
  public Batcher newBatcher(Options options) {
    return new Batcher(this, guard, () -> known().shape(), options,
        (made, out, error) -> inside(handle -> DpiNative.dpi_batcher_create_endpoint(handle, made, out, error)));
  }

  /** Scores the batch on the version that is current when the call begins: copies nothing and makes no garbage. */
  public void predict(Batch batch, Scores scores) {
    predict(batch, scores, null);
  }

  /** The same under a deadline or a cancel flag; {@code control} may be null. */
  public void predict(Batch batch, Scores scores, Control control) {
    Objects.requireNonNull(batch, "batch").score(guard, Batch.On.ENDPOINT, known().shape(), scores, control);
    Reference.reachabilityFence(this);
  }

  /** The endpoint's versions, what was loaded and refused, and the folder that it follows, as the C header says. */
  public String statusJson() {
    return inside(handle -> Native.json((buf, cap) -> DpiNative.dpi_endpoint_status_json(handle, buf, cap)));
  }

  /** {@link Model#slowJson()} over all versions. */
  public String slowJson() {
    return inside(handle -> Native.json((buf, cap) -> DpiNative.dpi_endpoint_slow_json(handle, buf, cap)));
  }

  public boolean isClosed() {
    return guard.isClosed();
  }

  /** Ends the endpoint's use; see the class's text. Acquired models stay. */
  @Override
  public void close() {
    guard.close();
  }
}
