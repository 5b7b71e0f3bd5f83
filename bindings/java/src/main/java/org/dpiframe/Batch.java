package org.dpiframe;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.ref.Reference;
import java.util.Objects;
import org.dpiframe.internal.DpiNative;
import org.dpiframe.internal.DpiNativeConstants;

/**
 * Rows to score: ids and floats in one block of native memory, where the library reads them. Allocated once by {@link
 * Model#batch()}, filled and scored as often as wanted without a copy or garbage. Belongs to one thread at a time. Its
 * memory goes when the batch is no longer reachable; there is nothing to close.
 *
 * <p>Without a shared part the {@link #item()} part holds every feature. With one, the features of {@link Feature#shared()}
 * are given once per row of {@link #shared()}, and {@code sharedOffsets} says which item rows belong to which.
 */
public final class Batch {
  private static final VarHandle BUSY;

  static {
    try {
      BUSY = MethodHandles.lookup().findVarHandle(Batch.class, "busy", int.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  /** What scores. */
  enum On { MODEL, CONTEXT, ENDPOINT, BATCHER }

  private final Block block;
  private final CallBlock call;
  private final Part item;
  private final Part shared;
  private final java.nio.LongBuffer sharedOffsets;
  private final long sharedOffsetsAddress;
  private Schema.Shape accepted;
  private boolean openShared;  // rows were added by addSharedRow: the last offset follows the item rows

  @SuppressWarnings("unused")
  private volatile int busy;

  Batch(BatchBuilder b) {
    accepted = b.schema.shape();
    boolean split = b.maxSharedRows > 0;
    Part.Size itemSize = b.itemSize();
    Part.Size sharedSize = b.sharedSize();
    long sharedAt = Block.ALIGN * ((itemSize.bytes() + Block.ALIGN - 1) / Block.ALIGN);
    long offsetsAt = sharedAt + (split ? sharedSize.bytes() : 0);
    block = new Block(offsetsAt + (split ? (b.maxSharedRows + 1L) * Long.BYTES : 0));
    call = new CallBlock(Native.Layout.BATCH_SIZE);
    item = new Part(block, 0, itemSize);
    shared = split ? new Part(block, sharedAt, sharedSize) : null;
    sharedOffsets = split ? block.longs(offsetsAt, b.maxSharedRows + 1L) : null;
    sharedOffsetsAddress = split ? block.address + offsetsAt : 0;
    call.extraInt(DpiNativeConstants.OFFSET_dpi_batch_layout, b.slotMajor ? 1 : 0);
  }

  /** The rows: all features, or those of the items when there is a {@link #shared()} part. */
  public Part item() {
    return item;
  }

  /** The shared rows; only in a batch built with {@link BatchBuilder#maxSharedRows(int)}. */
  public Part shared() {
    if (shared == null) throw new IllegalStateException("this batch was built without shared rows");
    return shared;
  }

  /** Item rows {@code offsets[s] .. offsets[s + 1] - 1} belong to shared row {@code s}. */
  public Batch sharedOffsets(long[] offsets) {
    shared().rows(offsets.length - 1);
    sharedOffsets.put(0, offsets);
    return this;
  }

  /** The shared offsets in place: {@code shared().rows() + 1} are read. */
  public java.nio.LongBuffer sharedOffsets() {
    shared();
    return sharedOffsets;
  }

  /** No rows; keeps the memory. */
  public Batch clear() {
    item.clear();
    openShared = false;
    if (shared != null) shared.clear();
    return this;
  }

  /** Item rows to score. */
  public int rows() {
    return item.rows();
  }

  /** Appends a row of one id per slot; either array may be null when the model has none of its kind. */
  public Batch addRow(float[] dense, long[] ids) {
    item.addRow(dense, ids);
    return this;
  }

  /** Appends a row of bags of ids, one per slot. */
  public Batch addRow(float[] dense, long[][] bags) {
    item.addRow(dense, bags);
    return this;
  }

  /** Appends a row of bags of ids with their weights. */
  public Batch addRow(float[] dense, long[][] bags, float[][] weights) {
    item.addRow(dense, bags, weights);
    return this;
  }

  /** Appends a shared row; the item rows added after it belong to it. */
  public Batch addSharedRow(float[] dense, long[][] bags) {
    shared().addRow(dense, bags);
    sharedOffsets.put(shared.rows() - 1, item.rows());
    sharedOffsets.put(shared.rows(), item.rows());
    openShared = true;
    return this;
  }

  /** The one predict of {@link Model} and {@link Context}: {@code guard} is the handle's, of a context if so said. */
  void score(Guard guard, On on, Schema.Shape shape, Scores scores, Control control) {
    enter(shape, Objects.requireNonNull(scores, "scores"));
    try {
      long run = call.run(control, scores);
      long handle = on == On.CONTEXT ? guard.enterAlone() : guard.enter();
      int code;
      try {
        code = switch (on) {
          case MODEL -> DpiNative.dpi_predict(handle, call.extra(), scores.address(), scores.capacity(), run, call.error());
          case CONTEXT ->
              DpiNative.dpi_context_predict_batch(handle, call.extra(), scores.address(), scores.capacity(), run, call.error());
          case BATCHER -> DpiNative.dpi_batcher_predict(handle, call.extra(), scores.address(), scores.capacity(), run, call.error());
          case ENDPOINT -> DpiNative.dpi_endpoint_predict(handle, call.extra(), scores.address(), scores.capacity(), run, call.error());
        };
      } finally {
        guard.exit();
      }
      call.check(code);
      scores.setRows(rows(), call.version());
    } finally {
      exit();
      Reference.reachabilityFence(scores);
      Reference.reachabilityFence(control);
    }
  }

  /** Leaves the batch with a batcher, which has read it when this returns. */
  void submit(long batcher, Schema.Shape shape, Job job) {
    Scores scores = job.scores;
    enter(shape, scores);
    try {
      job.rows(rows());
      call.check(DpiNative.dpi_batcher_submit(
          batcher, call.extra(), scores.address(), scores.capacity(), call.run(job), job.key, job.ticketAddress(), call.error()));
    } finally {
      exit();
      Reference.reachabilityFence(job);
    }
  }

  /** Takes the batch for one call; writes the C struct. */
  void enter(Schema.Shape shape, Scores scores) {
    if (!BUSY.compareAndSet(this, 0, 1)) {
      throw new IllegalStateException("the batch is in use by another thread; it belongs to one at a time");
    }
    boolean ready = false;
    try {
      prepare(shape, scores);
      ready = true;
    } finally {
      if (!ready) exit();
    }
  }

  private void prepare(Schema.Shape shape, Scores scores) {
    if (shape != accepted) {
      if (!shape.equals(accepted)) {
        throw new IllegalArgumentException("the batch was made for a model of another shape: " + accepted + ", not " + shape);
      }
      accepted = shape;
    }
    scores.setRows(0, 0);
    if (openShared) sharedOffsets.put(shared.rows(), item.rows());
    item.write(call, Part.ITEM);
    if (shared == null) return;
    shared.write(call, Part.SHARED);
    call.extraLong(DpiNativeConstants.OFFSET_dpi_batch_shared_offsets, sharedOffsetsAddress);
  }

  void exit() {
    BUSY.setRelease(this, 0);
    Reference.reachabilityFence(this);
  }

  CallBlock call() {
    return call;
  }
}
