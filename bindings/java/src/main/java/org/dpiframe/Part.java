package org.dpiframe;

import java.nio.FloatBuffer;
import java.nio.LongBuffer;
import java.util.Objects;
import org.dpiframe.internal.DpiNativeConstants;

/**
 * One part of a {@link Batch}: its rows, dense floats {@code [rows, denseDim]} and ids. Either one id per bag, {@code rows
 * x slots} ids; or bags, where bag {@code b} has the ids {@code offsets[b] .. offsets[b + 1] - 1} and there are {@code rows x
 * slots + 1} offsets. Bags are numbered {@code row * slots + slot}, in a slot-major batch {@code slot * rows + row}.
 *
 * <p>The buffers are views of the memory that the library reads: fill them in place by absolute {@code put}, or by the
 * array methods here.
 */
public final class Part {
  /** Where a part's fields lie in dpi_batch. */
  record Fields(int rows, int dense, int ids, int offsets, int weights, int nnz) {}

  static final Fields ITEM = new Fields(DpiNativeConstants.OFFSET_dpi_batch_rows,
      DpiNativeConstants.OFFSET_dpi_batch_dense, DpiNativeConstants.OFFSET_dpi_batch_ids,
      DpiNativeConstants.OFFSET_dpi_batch_offsets, DpiNativeConstants.OFFSET_dpi_batch_weights,
      DpiNativeConstants.OFFSET_dpi_batch_nnz);
  static final Fields SHARED = new Fields(DpiNativeConstants.OFFSET_dpi_batch_shared_rows,
      DpiNativeConstants.OFFSET_dpi_batch_shared_dense, DpiNativeConstants.OFFSET_dpi_batch_shared_ids,
      DpiNativeConstants.OFFSET_dpi_batch_shared_bag_offsets, DpiNativeConstants.OFFSET_dpi_batch_shared_weights,
      DpiNativeConstants.OFFSET_dpi_batch_shared_nnz);

  /** Capacities. */
  record Size(int maxRows, int slots, int denseDim, long maxIds, boolean weights) {
    long offsetsCount() {
      return (long) maxRows * slots + 1;
    }

    long bytes() {
      return 8 * (maxIds + offsetsCount()) + 4 * ((long) maxRows * denseDim + (weights ? maxIds : 0));
    }
  }

  private static final long ONE_PER_BAG = -1;

  private final Size size;
  private final LongBuffer ids;
  private final LongBuffer offsets;
  private final FloatBuffer dense;
  private final FloatBuffer weights;
  private final long idsAddress;
  private final long offsetsAddress;
  private final long denseAddress;
  private final long weightsAddress;
  private int rows;
  private long nnz = ONE_PER_BAG;
  private boolean useWeights;

  Part(Block block, long at, Size size) {
    this.size = size;
    ids = block.longs(at, size.maxIds());
    idsAddress = block.address + at;
    long offsetsAt = at + 8 * size.maxIds();
    offsets = block.longs(offsetsAt, size.offsetsCount());
    offsetsAddress = block.address + offsetsAt;
    long denseAt = offsetsAt + 8 * size.offsetsCount();
    long denseCount = (long) size.maxRows() * size.denseDim();
    dense = block.floats(denseAt, denseCount);
    denseAddress = size.denseDim() > 0 ? block.address + denseAt : 0;
    long weightsAt = denseAt + 4 * denseCount;
    weights = size.weights() ? block.floats(weightsAt, size.maxIds()) : null;
    weightsAddress = size.weights() ? block.address + weightsAt : 0;
  }

  public int rows() {
    return rows;
  }

  /** Sets the number of rows; their values are whatever the buffers hold. */
  public Part rows(int rows) {
    if (rows < 0 || rows > size.maxRows()) {
      throw new IllegalArgumentException(rows + " rows, the batch has room for " + size.maxRows());
    }
    this.rows = rows;
    return this;
  }

  public int maxRows() {
    return size.maxRows();
  }

  /** Ids there is room for. */
  public long maxIds() {
    return size.maxIds();
  }

  /** Bags of {@code nnz} ids together, by {@link #offsets()}. */
  public Part bags(long nnz) {
    if (nnz < 0 || nnz > size.maxIds()) {
      throw new IllegalArgumentException(nnz + " ids, the batch has room for " + size.maxIds());
    }
    this.nnz = nnz;
    return this;
  }

  /** One id per bag, offsets are not read (the state after {@link Batch#clear()}). */
  public Part oneIdPerBag() {
    nnz = ONE_PER_BAG;
    return this;
  }

  /** Whether {@link #weights()} are read; else all are 1. */
  public Part useWeights(boolean use) {
    if (use) weights();
    useWeights = use;
    return this;
  }

  public FloatBuffer dense() {
    return dense;
  }

  public LongBuffer ids() {
    return ids;
  }

  public LongBuffer offsets() {
    return offsets;
  }

  /** One weight per id; there when the model has a weighted feature or {@link BatchBuilder#withWeights()} asked for it. */
  public FloatBuffer weights() {
    if (weights == null) throw new IllegalStateException("this batch was built without weights");
    return weights;
  }

  /** Dense values from the first row on. */
  public Part dense(float[] values) {
    dense.put(0, Objects.requireNonNull(values, "values"));
    return this;
  }

  /** Ids from the first on, one per bag unless {@link #offsets(long[])} follows. */
  public Part ids(long[] values) {
    ids.put(0, Objects.requireNonNull(values, "values"));
    return this;
  }

  /** Offsets of the bags, {@code rows x slots + 1}; the last is the number of ids. */
  public Part offsets(long[] values) {
    offsets.put(0, Objects.requireNonNull(values, "values"));
    return bags(values.length > 0 ? values[values.length - 1] : 0);
  }

  /** Weights of the ids, which are read from now on. */
  public Part weights(float[] values) {
    weights().put(0, Objects.requireNonNull(values, "values"));
    return useWeights(true);
  }

  /** Refuses arrays whose lengths do not fit {@link #rows()}. */
  void check(float[] denseValues, long[] idValues, long[] offsetValues, float[] weightValues) {
    long bags = (long) rows * size.slots();
    long nIds = idValues == null ? 0 : idValues.length;
    expect("dense values", denseValues == null ? 0 : denseValues.length, (long) rows * size.denseDim());
    if (offsetValues != null) expect("offsets", offsetValues.length, bags + 1);
    expect("ids", nIds, offsetValues == null ? bags : offsetValues[offsetValues.length - 1]);
    if (weightValues != null) expect("weights", weightValues.length, nIds);
  }

  private void expect(String what, long got, long wanted) {
    if (got != wanted) {
      throw new IllegalArgumentException(got + " " + what + " for " + rows + " rows, expected " + wanted);
    }
  }

  void clear() {
    rows = 0;
    nnz = ONE_PER_BAG;
    useWeights = false;
  }

  void addRow(float[] denseValues, long[] rowIds) {
    int count = rowIds == null ? 0 : rowIds.length;
    if (count != size.slots()) {
      throw new IllegalArgumentException(count + " ids, the row has " + size.slots() + " slots");
    }
    if (nnz != ONE_PER_BAG && rows > 0) throw mixed();
    int row = openRow(denseValues);
    if (count > 0) ids.put(row * count, rowIds);
  }

  void addRow(float[] denseValues, long[][] bags) {
    addRow(denseValues, bags, null);
  }

  void addRow(float[] denseValues, long[][] bags, float[][] bagWeights) {
    if (Objects.requireNonNull(bags, "bags").length != size.slots()) {
      throw new IllegalArgumentException(bags.length + " bags, the row has " + size.slots() + " slots");
    }
    if (nnz == ONE_PER_BAG && rows > 0) throw mixed();
    if (bagWeights != null && bagWeights.length != bags.length) {
      throw new IllegalArgumentException(bagWeights.length + " arrays of weights for " + bags.length + " bags");
    }
    if (rows > 0 && useWeights != (bagWeights != null)) {
      throw new IllegalStateException("rows with weights and rows without cannot be mixed in one batch");
    }
    long total = Math.max(nnz, 0);
    for (int s = 0; s < bags.length; s++) {
      total += Objects.requireNonNull(bags[s], "bags[s]").length;
      if (bagWeights != null && bagWeights[s].length != bags[s].length) {
        throw new IllegalArgumentException(bagWeights[s].length + " weights for " + bags[s].length + " ids of slot " + s);
      }
    }
    if (total > size.maxIds()) {
      throw new IllegalArgumentException(total + " ids, the batch has room for " + size.maxIds());
    }
    useWeights(bagWeights != null);
    int row = openRow(denseValues);
    int at = (int) Math.max(nnz, 0);
    offsets.put(row * size.slots(), at);
    for (int s = 0; s < bags.length; s++) {
      ids.put(at, bags[s]);
      if (bagWeights != null) weights.put(at, bagWeights[s]);
      at += bags[s].length;
      offsets.put(row * size.slots() + s + 1, at);
    }
    nnz = at;
  }

  private int openRow(float[] denseValues) {
    int count = denseValues == null ? 0 : denseValues.length;
    if (count != size.denseDim()) {
      throw new IllegalArgumentException(count + " dense values, the row has " + size.denseDim());
    }
    int row = rows;
    rows(row + 1);
    if (count > 0) dense.put(row * count, denseValues);
    return row;
  }

  private static IllegalStateException mixed() {
    return new IllegalStateException("rows of single ids and rows of bags cannot be mixed in one batch");
  }

  /** Writes this part's fields of dpi_batch. */
  void write(CallBlock call, Fields f) {
    boolean single = nnz == ONE_PER_BAG;
    long count = single ? (long) rows * size.slots() : nnz;
    if (count > size.maxIds()) {
      throw new IllegalArgumentException(count + " ids, the batch has room for " + size.maxIds());
    }
    call.extraLong(f.rows(), rows);
    call.extraLong(f.dense(), denseAddress);
    call.extraLong(f.ids(), idsAddress);
    call.extraLong(f.offsets(), single ? 0 : offsetsAddress);
    call.extraLong(f.weights(), useWeights ? weightsAddress : 0);
    call.extraLong(f.nnz(), count);
  }
}
