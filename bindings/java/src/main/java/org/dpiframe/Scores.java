package org.dpiframe;

import java.nio.FloatBuffer;

/**
 * Scores of a batch, one float per row and head, in native memory that the library writes to. Reusable; belongs to one
 * thread at a time. After a call that failed it holds no rows.
 */
public final class Scores {
  private final Block block;
  private final FloatBuffer values;
  private final FloatBuffer logits;
  private final int heads;
  private final int maxRows;
  private final long logitsAddress;
  private int rows;
  private long version;

  Scores(int maxRows, int heads, boolean withLogits) {
    if (maxRows < 0) throw new IllegalArgumentException("maxRows is " + maxRows);
    this.heads = heads;
    this.maxRows = maxRows;
    long bytes = (long) maxRows * heads * Float.BYTES;
    block = new Block(withLogits ? 2 * bytes : bytes);
    values = block.floats(0, (long) maxRows * heads);
    logits = withLogits ? block.floats(bytes, (long) maxRows * heads) : null;
    logitsAddress = withLogits ? block.address + bytes : 0;
  }

  /** Rows of the last call. */
  public int rows() {
    return rows;
  }

  /** The version of the model ({@link ModelInfo#version()}) that scored all rows of the last call; 0 when there are none. */
  public long version() {
    return version;
  }

  /** Scores per row. */
  public int heads() {
    return heads;
  }

  /** Rows there is room for. */
  public int maxRows() {
    return maxRows;
  }

  /** The row's first (for most models only) score. */
  public float get(int row) {
    return get(row, 0);
  }

  /** One score. */
  public float get(int row, int head) {
    return values.get(index(row, head));
  }

  /** The value before the head's activation, NaN for a head without one; only with {@link Model#newScores(int, boolean)}. */
  public float logit(int row, int head) {
    if (logits == null) throw new IllegalStateException("these scores were made without logits");
    return logits.get(index(row, head));
  }

  /** All scores, row by row, into {@code to} from its start; returns how many. */
  public int copyTo(float[] to) {
    int count = rows * heads;
    values.get(0, to, 0, count);
    return count;
  }

  /** All scores, row by row, in a new array. */
  public float[] toArray() {
    float[] to = new float[rows * heads];
    copyTo(to);
    return to;
  }

  /** A read-only view of the native memory, rows by heads; what it shows changes with the next call. */
  public FloatBuffer buffer() {
    return values.slice(0, rows * heads).asReadOnlyBuffer();
  }

  private int index(int row, int head) {
    if (row < 0 || row >= rows || head < 0 || head >= heads) {
      throw new IndexOutOfBoundsException("row " + row + ", head " + head + " of " + rows + " rows, " + heads + " heads");
    }
    return row * heads + head;
  }

  /** Floats there is room for. */
  long capacity() {
    return (long) maxRows * heads;
  }

  long address() {
    return block.address;
  }

  long logitsAddress() {
    return logitsAddress;
  }

  void setRows(int rows, long version) {
    this.rows = rows;
    this.version = version;
  }
}
