package org.dpiframe;

import java.lang.ref.Reference;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.Map;
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
      return 0;
    });
  }

  /** Starts the next row. */
  public Rows begin() {
    return run(h -> DpiNative.dpi_rows_begin(h, call.error()));
  }

  /** Starts the next shared row: shared features set from now on go to it, and the rows begun after it belong to it. */
  public Rows beginShared() {
    return run(h -> DpiNative.dpi_rows_begin_shared(h, call.error()));
  }

  /** A raw text; for a sequence it appends one element. Empty = missing (nothing, for a sequence). */
  public Rows set(int feature, String value) {
    return run(h -> {
      int size = encode(value);
      return DpiNative.dpi_rows_set_text(h, feature, scratch.address, size, call.error());
    });
  }

  /** A raw number. */
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

  /** Encoded ids of a categorical or sequence feature; {@code weights} may be null. */
  public Rows setIds(int feature, long[] ids, float[] weights) {
    if (weights != null && weights.length != ids.length) {
      throw new IllegalArgumentException(weights.length + " weights for " + ids.length + " ids");
    }
    return run(h -> {
      Block room = room(ids.length * 12L);
      room.longs(0, ids.length).put(0, ids);
      long at = ids.length * 8L;
      if (weights != null) room.floats(at, weights.length).put(0, weights);
      return DpiNative.dpi_rows_set_ids(
          h, feature, room.address, weights != null ? room.address + at : 0, ids.length, call.error());
    });
  }

  /** Encoded floats of a numeric or dense feature. */
  public Rows setFloats(int feature, float[] values) {
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

  /** By name: {@link #set(int, double)}. */
  public Rows set(String feature, double value) {
    return set(schema.feature(feature).index(), value);
  }

  /** By name: {@link #addText(int, String, float)}. */
  public Rows addText(String feature, String value, float weight) {
    return addText(schema.feature(feature).index(), value, weight);
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
   * All values of a row by feature name, as a JSON reader gives them: text, number, boolean (as the text true or false),
   * null = missing, a collection for a sequence (texts or numbers) or a dense feature (numbers).
   */
  public Rows setAll(Map<String, ?> values) {
    values.forEach((name, value) -> setAny(schema.feature(name), value));
    return this;
  }

  private void setAny(Feature f, Object value) {
    if (value == null) return;
    if (value instanceof Collection<?> list) {
      if (f.kind() == FeatureKind.DENSE || f.kind() == FeatureKind.NUMERIC) {
        setFloats(f.index(), floats(f, list));
      } else {
        for (Object element : list) setAny(f, element);
      }
    } else if (value instanceof Number n && f.kind() != FeatureKind.DENSE) {
      set(f.index(), n.doubleValue());
    } else {
      set(f.index(), value.toString());
    }
  }

  private static float[] floats(Feature f, Collection<?> list) {
    float[] values = new float[list.size()];
    int i = 0;
    for (Object element : list) {
      if (!(element instanceof Number n)) {
        throw new IllegalArgumentException("feature '" + f.name() + "': element " + i + " is no number: " + element);
      }
      values[i++] = n.floatValue();
    }
    return values;
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
    scores.setRows(0, 0);
    run(h -> {
      int code = DpiNative.dpi_rows_predict(
          h, scores.address(), scores.capacity(), call.run(control, scores), call.error());
      if (code == 0) scores.setRows(Math.toIntExact(DpiNative.dpi_rows_count(h)), call.version());
      return code;
    });
    Reference.reachabilityFence(scores);
    Reference.reachabilityFence(control);
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
    int size = text.length();
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
