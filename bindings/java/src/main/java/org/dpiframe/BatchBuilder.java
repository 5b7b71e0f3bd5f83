package org.dpiframe;

/**
 * Makes a {@link Batch}: with room for later rows, or from plain arrays, which are copied once. Arrays set the capacities
 * that were not given.
 */
public final class BatchBuilder {
  final Schema schema;
  int maxSharedRows;
  boolean slotMajor;
  private int maxRows = -1;
  private long maxIds = -1;
  private long maxSharedIds = -1;
  private boolean withWeights;
  private float[] dense;
  private long[] ids;
  private long[] offsets;
  private float[] weights;
  private long[] sharedOffsets;
  private float[] sharedDense;
  private long[] sharedIds;
  private long[] sharedBagOffsets;
  private float[] sharedWeights;
  private int rows = -1;

  BatchBuilder(Schema schema) {
    this.schema = schema;
  }

  /** Rows there is room for. */
  public BatchBuilder maxRows(int rows) {
    maxRows = rows;
    return this;
  }

  /** Ids of all rows together there is room for; default one per bag. */
  public BatchBuilder maxIds(long ids) {
    maxIds = ids;
    return this;
  }

  /** Shared rows there is room for; more than 0 makes a batch with a shared part. */
  public BatchBuilder maxSharedRows(int rows) {
    maxSharedRows = rows;
    return this;
  }

  /** Ids of all shared rows together; default one per bag. */
  public BatchBuilder maxSharedIds(long ids) {
    maxSharedIds = ids;
    return this;
  }

  /** Room for weights even if no feature takes any. */
  public BatchBuilder withWeights() {
    withWeights = true;
    return this;
  }

  /** Bags are numbered slot by slot; for array and buffer filling, not for {@code addRow}. */
  public BatchBuilder slotMajor() {
    slotMajor = true;
    return this;
  }

  /** Rows of the arrays; by default they follow from the arrays' lengths. */
  public BatchBuilder rows(int rows) {
    this.rows = rows;
    return this;
  }

  public BatchBuilder dense(float[] values) {
    dense = values;
    return this;
  }

  public BatchBuilder ids(long[] values) {
    ids = values;
    return this;
  }

  public BatchBuilder offsets(long[] values) {
    offsets = values;
    return this;
  }

  public BatchBuilder weights(float[] values) {
    weights = values;
    withWeights = true;
    return this;
  }

  public BatchBuilder sharedOffsets(long[] values) {
    sharedOffsets = values;
    return this;
  }

  public BatchBuilder sharedDense(float[] values) {
    sharedDense = values;
    return this;
  }

  public BatchBuilder sharedIds(long[] values) {
    sharedIds = values;
    return this;
  }

  public BatchBuilder sharedBagOffsets(long[] values) {
    sharedBagOffsets = values;
    return this;
  }

  public BatchBuilder sharedWeights(float[] values) {
    sharedWeights = values;
    withWeights = true;
    return this;
  }

  /** Allocates the batch, and copies the arrays into it if any were given. */
  public Batch build() {
    if (sharedOffsets != null) {
      if (sharedOffsets.length == 0) throw new IllegalArgumentException("sharedOffsets is empty, expected shared rows + 1");
      maxSharedRows = Math.max(maxSharedRows, sharedOffsets.length - 1);
    }
    boolean filled = rows >= 0 || dense != null || ids != null || offsets != null || sharedOffsets != null;
    int count = filled ? countRows() : 0;
    maxRows = Math.max(maxRows, count);
    if (maxRows < 0) throw new IllegalArgumentException("neither maxRows nor arrays were given");
    Batch batch = new Batch(this);
    if (!filled) return batch;
    fill(batch.item().rows(count), dense, ids, offsets, weights);
    if (sharedOffsets != null) {
      batch.sharedOffsets(sharedOffsets);
      fill(batch.shared(), sharedDense, sharedIds, sharedBagOffsets, sharedWeights);
    }
    return batch;
  }

  private int countRows() {
    if (rows >= 0) return rows;
    if (sharedOffsets != null) return Math.toIntExact(sharedOffsets[sharedOffsets.length - 1]);
    if (dense != null && schema.denseDim() > 0) return dense.length / schema.denseDim();
    if (schema.slots() == 0) return 0;
    if (offsets != null) return (offsets.length - 1) / schema.slots();
    return ids != null ? ids.length / schema.slots() : 0;
  }

  private void fill(Part part, float[] dense, long[] ids, long[] offsets, float[] weights) {
    part.check(dense, ids, offsets, weights);
    if (dense != null) part.dense(dense);
    if (ids != null) part.ids(ids);
    if (offsets != null) part.offsets(offsets);
    if (weights != null) part.weights(weights);
  }

  Part.Size itemSize() {
    boolean split = maxSharedRows > 0;
    int slots = split ? schema.itemSlots() : schema.slots();
    int columns = split ? schema.itemDenseDim() : schema.denseDim();
    return size(maxRows, slots, columns, Math.max(maxIds, ids != null ? ids.length : -1));
  }

  Part.Size sharedSize() {
    return size(maxSharedRows, schema.sharedSlots(), schema.sharedDenseDim(),
        Math.max(maxSharedIds, sharedIds != null ? sharedIds.length : -1));
  }

  private Part.Size size(int rows, int slots, int columns, long ids) {
    return new Part.Size(rows, slots, columns, ids >= 0 ? ids : (long) rows * slots, withWeights || schema.hasWeights());
  }
}
