package org.dpiframe;

import java.lang.ref.Reference;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Iterator;
import java.util.Map;
import java.util.Objects;
import org.dpiframe.internal.DpiNative;

/**
 * Rows of raw values by feature, read by the bundle's own encoders exactly as training did. A feature that is not set is
 * missing. Reusable after {@link #clear()}; belongs to one thread at a time, and use by two at once is refused.
 *
 * <pre>{@code
 * rows.clear();
 * rows.begin().set("age", 37).set("city", "Riga").addText("genre", "jazz", 0.5f);
 * rows.predict(scores);
 * }</pre>
 */
public final class Rows implements AutoCloseable {
  private final Guard guard;
  private final Schema schema;
  private final CallBlock call = new CallBlock();
  private Block scratch = new Block(256);
  private int sharedRows;

  Rows(long handle, Schema schema) {
    guard = Guard.of(this, "the rows", handle, DpiNative::dpi_rows_free);
    this.schema = schema;
  }

  private interface Call {
    int run(long handle);
  }

  private Rows run(Call body) {
    long handle = guard.enterAlone();
    try {
      call.check(body.run(handle));
      return this;
    } finally {
      guard.exit();
      Reference.reachabilityFence(this);
    }
  }

  /** Forgets all rows, keeps the memory. */
  public Rows clear() {
    return run(h -> {
      DpiNative.dpi_rows_clear(h);
      sharedRows = 0;
      return 0;
    });
  }

  /** Starts the next row. */
  public Rows begin() {
    return run(h -> DpiNative.dpi_rows_begin(h, call.error()));
  }

  /** Starts the next shared row: shared features set from now on go to it, and the rows begun after it belong to it. */
  public Rows beginShared() {
    run(h -> DpiNative.dpi_rows_begin_shared(h, call.error()));
    sharedRows++;
    return this;
  }

  /** A raw text; for a sequence it appends one element. Empty = missing (nothing, for a sequence). */
  public Rows set(int feature, String value) {
    return run(h -> {
      int size = encode(value);
      return DpiNative.dpi_rows_set_text(h, feature, scratch.address, size, call.error());
    });
  }

  /** A raw text of one character: a character is no number. */
  public Rows set(int feature, char value) {
    return set(feature, String.valueOf(value));
  }

  /** A raw integer, read as its decimal digits would be by {@link #set(int, String)}; for a sequence it appends one element. */
  public Rows set(int feature, long value) {
    return run(h -> DpiNative.dpi_rows_set_integer(h, feature, value, call.error()));
  }

  /**
   * A raw number, read as a quantity; NaN = missing. A feature whose ids name something refuses 2^53 and more: from there on a
   * double stands for several integers, and {@link #set(int, long)} or the number's text gives the one that is meant.
   */
  public Rows set(int feature, double value) {
    return run(h -> DpiNative.dpi_rows_set_number(h, feature, value, call.error()));
  }

  /** One element of a sequence with its weight. */
  public Rows addText(int feature, String value, float weight) {
    return run(h -> {
      int size = encode(value);
      return DpiNative.dpi_rows_add_text(h, feature, scratch.address, size, weight, call.error());
    });
  }

  /** Raw integers as elements of a sequence, all or none; {@code weights} may be null. */
  public Rows addIntegers(int feature, long[] values, float[] weights) {
    return run(h -> {
      long at = put("values", values, weights);
      return DpiNative.dpi_rows_add_integers(
          h, feature, scratch.address, weights != null ? scratch.address + at : 0, values.length, call.error());
    });
  }

  /** Encoded ids of a categorical or sequence feature; {@code weights} may be null. */
  public Rows setIds(int feature, long[] ids, float[] weights) {
    return run(h -> {
      long at = put("ids", ids, weights);
      return DpiNative.dpi_rows_set_ids(
          h, feature, scratch.address, weights != null ? scratch.address + at : 0, ids.length, call.error());
    });
  }

  /** Writes both to the scratch memory; returns the weights' offset. */
  private long put(String name, long[] values, float[] weights) {
    Objects.requireNonNull(values, name);
    if (weights != null && weights.length != values.length) {
      throw new IllegalArgumentException(weights.length + " weights for " + values.length + " values");
    }
    Block room = room(values.length * 12L);
    room.longs(0, values.length).put(0, values);
    long at = values.length * 8L;
    if (weights != null) room.floats(at, weights.length).put(0, weights);
    return at;
  }

  /** Encoded floats of a numeric or dense feature. */
  public Rows setFloats(int feature, float[] values) {
    Objects.requireNonNull(values, "values");
    return run(h -> {
      Block room = room(values.length * 4L);
      room.floats(0, values.length).put(0, values);
      return DpiNative.dpi_rows_set_floats(h, feature, room.address, values.length, call.error());
    });
  }

  /** By name: {@link #set(int, String)}. */
  public Rows set(String feature, String value) {
    return set(schema.feature(feature).index(), value);
  }

  /** By name: {@link #set(int, char)}. */
  public Rows set(String feature, char value) {
    return set(schema.feature(feature).index(), value);
  }

  /** By name: {@link #set(int, long)}. */
  public Rows set(String feature, long value) {
    return set(schema.feature(feature).index(), value);
  }

  /** By name: {@link #set(int, double)}. */
  public Rows set(String feature, double value) {
    return set(schema.feature(feature).index(), value);
  }

  /** By name: {@link #addText(int, String, float)}. */
  public Rows addText(String feature, String value, float weight) {
    return addText(schema.feature(feature).index(), value, weight);
  }

  /** By name: {@link #addIntegers(int, long[], float[])}. */
  public Rows addIntegers(String feature, long[] values, float[] weights) {
    return addIntegers(schema.feature(feature).index(), values, weights);
  }

  /** By name: {@link #setIds(int, long[], float[])}. */
  public Rows setIds(String feature, long[] ids, float[] weights) {
    return setIds(schema.feature(feature).index(), ids, weights);
  }

  /** By name: {@link #setFloats(int, float[])}. */
  public Rows setFloats(String feature, float[] values) {
    return setFloats(schema.feature(feature).index(), values);
  }

  /**
   * All values of a row by feature name, as a JSON reader gives them. The rules are those of Go and C:
   *
   * <ul>
   *   <li>a {@link CharSequence} or {@link Character} is a raw text, a {@link Boolean} the text true or false, null = missing
   *   <li>{@link Long}, {@link Integer} and the like, {@link java.math.BigInteger}, {@link java.math.BigDecimal} and any other
   *       {@link Number} (such as a JSON reader's own, which keeps the text) are read by their digits as they are: nothing is
   *       rounded
   *   <li>{@link Double} and {@link Float} are read as a quantity, as by {@link #set(int, double)}; a JSON reader that makes
   *       doubles of all numbers has rounded integers beyond 2^53 before they come here
   *   <li>a {@link java.util.Collection} or array is a list of such values: elements of a sequence (null leaves the bag), or the
   *       floats of a dense vector without encoder (null = missing). No other feature takes a list, not even of one value, and no
   *       list holds a list
   *   <li>any other object, {@code byte[]} and {@code char[]} are refused
   * </ul>
   *
   * What fits no rule is {@link DpiException.InvalidArgument} with row and feature; values before it stay set.
   */
  public Rows setAll(Map<String, ?> values) {
    Objects.requireNonNull(values, "values").forEach((name, value) -> setAny(schema.feature(name), value));
    return this;
  }

  private void setAny(Feature f, Object value) {
    Iterator<?> list = RawValue.list(value);
    try {
      if (f.kind() == FeatureKind.DENSE) {
        setVector(f, value, list != null);
      } else if (list != null) {
        setList(f, value, list);
      } else {
        setOne(f, value);
      }
    } catch (RawValue.Misfit e) {
      throw misfit(f, e.getMessage());
    }
  }

  private void setOne(Feature f, Object value) throws RawValue.Misfit {
    String text = value == null ? "" : RawValue.text(value);
    if (RawValue.isInteger(value)) {
      set(f.index(), ((Number) value).longValue());
    } else if (RawValue.isQuantity(value)) {
      set(f.index(), ((Number) value).doubleValue());
    } else if (text != null) {
      set(f.index(), text);
    } else {
      throw new RawValue.Misfit("a " + value.getClass().getName() + " is no raw value");
    }
  }

  private void setList(Feature f, Object value, Iterator<?> list) throws RawValue.Misfit {
    addIntegers(f.index(), value instanceof long[] integers ? integers : new long[0], null);  // refuses what takes no list
    if (value instanceof long[]) return;
    for (int i = 0; list.hasNext(); i++) {
      Object element = list.next();
      if (RawValue.list(element) != null) throw new RawValue.Misfit("element " + i + " is a list inside a list");
      setOne(f, element);
    }
  }

  private void setVector(Feature f, Object value, boolean isList) throws RawValue.Misfit {
    if (!isList && value != null) {
      throw new RawValue.Misfit(
          "a " + value.getClass().getName() + " is no dense vector, which is a list of " + f.dim() + " numbers");
    }
    if (f.hasEncoder()) {
      throw new RawValue.Misfit(
          "a vector with an encoder, which raw values cannot be given for; setFloats takes encoded ones");
    }
    float[] missing = new float[f.dim()];
    Arrays.fill(missing, Float.NaN);
    setFloats(f.index(), value == null ? missing : RawValue.floats(value));
  }

  /** Names the row and the feature, as the library's own errors do. */
  private DpiException misfit(Feature f, String what) {
    boolean inShared = f.shared() && sharedRows > 0;
    long row = (inShared ? sharedRows : count()) - 1L;
    String text = (inShared ? "shared row " : "row ") + row + ", feature '" + f.name() + "': " + what;
    return DpiException.of(
        new DpiException.Detail(Status.INVALID_ARGUMENT.code(), text, row, f.index(), inShared, 0));
  }

  /** Rows begun since the last {@link #clear()}. */
  public int count() {
    long handle = guard.enterAlone();
    try {
      return Math.toIntExact(DpiNative.dpi_rows_count(handle));
    } finally {
      guard.exit();
    }
  }

  /** Scores the rows; {@code control} may be null. */
  public void predict(Scores scores, Control control) {
    Objects.requireNonNull(scores, "scores").setRows(0, 0);
    run(h -> {
      int code = DpiNative.dpi_rows_predict(
          h, scores.address(), scores.capacity(), call.run(control, scores), call.error());
      if (code == 0) scores.setRows(Math.toIntExact(DpiNative.dpi_rows_count(h)), call.version());
      return code;
    });
    Reference.reachabilityFence(scores);
    Reference.reachabilityFence(control);
  }

  /** The same in a batcher's chunk. */
  void predictThrough(long batcher, Scores scores, Control control) {
    Objects.requireNonNull(scores, "scores").setRows(0, 0);
    run(h -> {
      int code = DpiNative.dpi_batcher_rows_predict(
          batcher, h, scores.address(), scores.capacity(), call.run(control, scores), call.error());
      if (code == 0) scores.setRows(Math.toIntExact(DpiNative.dpi_rows_count(h)), call.version());
      return code;
    });
    Reference.reachabilityFence(scores);
    Reference.reachabilityFence(control);
  }

  /** Leaves the rows with a batcher, which has read them when this returns. */
  void submit(long batcher, Job job) {
    Scores scores = job.scores;
    scores.setRows(0, 0);
    run(h -> {
      job.rows(Math.toIntExact(DpiNative.dpi_rows_count(h)));
      return DpiNative.dpi_batcher_rows_submit(
          batcher, h, scores.address(), scores.capacity(), call.run(job), job.key, job.ticketAddress(), call.error());
    });
    Reference.reachabilityFence(job);
  }

  /** Scores the rows. */
  public void predict(Scores scores) {
    predict(scores, null);
  }

  /** Scores the rows into new memory. */
  public Scores predict() {
    Scores scores = new Scores(count(), schema.shape().heads(), false);
    predict(scores, null);
    return scores;
  }

  @Override
  public void close() {
    guard.close();
  }

  /** Writes {@code text} as UTF-8 to the scratch memory; returns its bytes. */
  private int encode(String text) {
    int size = Objects.requireNonNull(text, "value").length();
    Block room = room(size);
    for (int i = 0; i < size; i++) {
      char c = text.charAt(i);
      if (c >= 0x80) return encodeWide(text);
      room.bytes.put(i, (byte) c);
    }
    return size;
  }

  private int encodeWide(String text) {
    byte[] utf8 = text.getBytes(StandardCharsets.UTF_8);
    room(utf8.length).bytes.put(0, utf8);
    return utf8.length;
  }

  private Block room(long size) {
    if (size > scratch.bytes.capacity()) scratch = new Block(Math.max(size, 2L * scratch.bytes.capacity()));
    return scratch;
  }
}
