package org.dpiframe;

import java.lang.ref.Reference;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.LongFunction;
import org.dpiframe.internal.DpiNative;
import org.dpiframe.internal.DpiNativeConstants;

/**
 * A loaded bundle. Immutable; any number of threads may score with it at once. {@link #close()} may be called by any
 * thread at any time and more than once: later calls fail with {@link DpiException.Closed}, and the memory goes when the
 * last running call leaves.
 */
public final class Model implements AutoCloseable {
  private static final int POOL_MAX = 2 * Runtime.getRuntime().availableProcessors();

  /** A batch and its scores for the calls over plain arrays. */
  private record Pooled(Batch batch, Scores scores) {}

  private final Guard guard;
  private final Schema schema;
  private final Schema.Shape shape;
  private final ModelInfo info;
  private final ConcurrentLinkedQueue<Pooled> pool = new ConcurrentLinkedQueue<>();
  private final AtomicInteger pooled = new AtomicInteger();

  Model(long handle) {
    guard = Guard.of(this, "the model", handle, DpiNative::dpi_model_free);
    CallBlock call = new CallBlock(DpiNativeConstants.SIZEOF_dpi_model_info);
    call.check(DpiNative.dpi_model_get_info(handle, call.extra(), call.error()));
    info = new ModelInfo(Device.ofKind(call.extraInt(DpiNativeConstants.OFFSET_dpi_model_info_device_kind)),
        call.extraInt(DpiNativeConstants.OFFSET_dpi_model_info_device_index),
        call.extraLong(DpiNativeConstants.OFFSET_dpi_model_info_max_rows),
        call.extraLong(DpiNativeConstants.OFFSET_dpi_model_info_host_bytes),
        call.extraLong(DpiNativeConstants.OFFSET_dpi_model_info_device_bytes),
        call.extraLong(DpiNativeConstants.OFFSET_dpi_model_info_content_digest),
        call.extraLong(DpiNativeConstants.OFFSET_dpi_model_info_version));
    schema = readSchema(handle, call);
    shape = schema.shape();
  }

  /** Starts loading a model. */
  public static ModelBuilder builder() {
    return new ModelBuilder();
  }

  /** The bundle at {@code path} with default options. */
  public static Model load(String path) {
    return builder().path(path).load();
  }

  private static Schema readSchema(long handle, CallBlock info) {
    Schema.Shape shape = new Schema.Shape(info.extraInt(DpiNativeConstants.OFFSET_dpi_model_info_num_slots),
        info.extraInt(DpiNativeConstants.OFFSET_dpi_model_info_dense_dim),
        info.extraInt(DpiNativeConstants.OFFSET_dpi_model_info_num_item_slots),
        info.extraInt(DpiNativeConstants.OFFSET_dpi_model_info_item_dense_dim),
        info.extraInt(DpiNativeConstants.OFFSET_dpi_model_info_num_shared_slots),
        info.extraInt(DpiNativeConstants.OFFSET_dpi_model_info_shared_dense_dim),
        info.extraInt(DpiNativeConstants.OFFSET_dpi_model_info_num_heads));
    List<Feature> features = new ArrayList<>();
    int count = info.extraInt(DpiNativeConstants.OFFSET_dpi_model_info_num_features);
    for (int i = 0; i < count; i++) features.add(readFeature(handle, i));
    List<String> heads = new ArrayList<>();
    for (int i = 0; i < shape.heads(); i++) heads.add(Native.textOf(DpiNative.dpi_model_head_name(handle, i)));
    return new Schema(shape, features, heads);
  }

  private static Feature readFeature(long handle, int index) {
    CallBlock c = new CallBlock(DpiNativeConstants.SIZEOF_dpi_feature_info);
    c.check(DpiNative.dpi_model_get_feature(handle, index, c.extra(), c.error()));
    int kind = c.extraInt(DpiNativeConstants.OFFSET_dpi_feature_info_kind);
    return new Feature(index, Native.textOf(DpiNative.dpi_model_feature_name(handle, index)), FeatureKind.values()[kind],
        c.extraInt(DpiNativeConstants.OFFSET_dpi_feature_info_shared) != 0,
        c.extraInt(DpiNativeConstants.OFFSET_dpi_feature_info_slot),
        c.extraInt(DpiNativeConstants.OFFSET_dpi_feature_info_part_slot),
        c.extraInt(DpiNativeConstants.OFFSET_dpi_feature_info_dense_column),
        c.extraInt(DpiNativeConstants.OFFSET_dpi_feature_info_part_column),
        c.extraInt(DpiNativeConstants.OFFSET_dpi_feature_info_dim),
        c.extraLong(DpiNativeConstants.OFFSET_dpi_feature_info_vocab_size),
        c.extraLong(DpiNativeConstants.OFFSET_dpi_feature_info_max_len),
        c.extraInt(DpiNativeConstants.OFFSET_dpi_feature_info_has_encoder) != 0,
        c.extraInt(DpiNativeConstants.OFFSET_dpi_feature_info_weighted) != 0);
  }

  public Schema schema() {
    return schema;
  }

  public ModelInfo info() {
    return info;
  }

  /** Features with slots, columns and rules, heads, provenance. */
  public String schemaJson() {
    return json(DpiNative::dpi_model_schema_json);
  }

  /** Device and why it was chosen, options in force, memory by table, plan. */
  public String infoJson() {
    return json(DpiNative::dpi_model_info_json);
  }

  /**
   * Calls, rows, errors and slow waits for a context since load; per feature by cause: missing, out_of_range (encoded ids), unknown
   * and unparsable (raw values), cut (bags), absent (keys).
   */
  public String countersJson() {
    return json(DpiNative::dpi_model_counters_json);
  }

  /**
   * The last 64 calls that took as long as option slow_us says: when, how long each stage took, rows, ids by feature, and no values. A list,
   * empty without the option.
   */
  public String slowJson() {
    return json(DpiNative::dpi_model_slow_json);
  }

  private interface ModelJson {
    long get(long model, long buf, long cap);
  }

  private String json(ModelJson call) {
    return inside(handle -> Native.json((buf, cap) -> call.get(handle, buf, cap)));
  }

  /** Runs {@code body} while nothing frees the handle. */
  private <T> T inside(LongFunction<T> body) {
    long handle = guard.enter();
    try {
      return body.apply(handle);
    } finally {
      guard.exit();
    }
  }

  /** Runs batches of up to {@code maxRows} rows through every context. */
  public void warmUp(long maxRows) {
    CallBlock call = new CallBlock();
    call.check(inside(handle -> DpiNative.dpi_model_warm_up(handle, maxRows, call.error())));
  }

  /** Floats of a row of a table that {@link #tableLookup} reads; the exception says why it reads no such table. */
  public int tableDim(String table) {
    return dimOf(Block.text("table", table));
  }

  private int dimOf(Block name) {
    CallBlock call = new CallBlock();
    int found = inside(handle -> {
      int dim = DpiNative.dpi_table_dim(handle, name.address);
      if (dim < 0) call.check(DpiNative.dpi_table_lookup(handle, name.address, 0, 0, 0, 0, call.error()));
      return dim;
    });
    Reference.reachabilityFence(name);
    return found;
  }

  /**
   * Rows of one table, {@code [keys, dim]}, as the model's lookups read them: for services that keep the dense part elsewhere, or to look
   * at embeddings. Where a key set finds the table's rows, keys are any long and an absent one gives the default row; else keys are row
   * numbers, and one outside the table is an error, whose {@link DpiException#row()} is the key's number in {@code keys}. {@code dim} is
   * the table's, as {@link #tableDim} tells it: with another, or where the table is not read at all, there is an error before memory is
   * taken for the rows.
   *
   * <p>A table in the host tier (option store.host_bytes) is read by its policy table.NAME.miss: "exact" waits for rows that are late;
   * "default" hands out table.NAME.default in their place without an error, and only the counter "defaulted" of {@link #countersJson}
   * tells; "fail" is {@link DpiException.NotFound}. There is no limit to how long it waits: {@link #tableLookup(String, long[], int,
   * Control)} has one.
   */
  public float[] tableLookup(String table, long[] keys, int dim) {
    return tableLookup(table, keys, dim, null);
  }

  /**
   * The same under a deadline or a cancel flag, which are looked at on entry and while rows are waited for: {@link DpiException.Timeout}
   * and {@link DpiException.Cancelled}. {@code control} may be null.
   */
  public float[] tableLookup(String table, long[] keys, int dim, Control control) {
    Block name = Block.text("table", table);
    long rowsAt = (long) keys.length * Long.BYTES;
    int width = dimOf(name);
    if (dim != width) throw new IllegalArgumentException("table '" + table + "' has rows of " + width + " floats, dim is " + dim);
    long count = (long) keys.length * dim;
    Block block = new Block(rowsAt + count * Float.BYTES);
    block.longs(0, keys.length).put(keys);
    CallBlock call = new CallBlock();
    call.check(inside(handle -> DpiNative.dpi_table_lookup_run(handle, name.address, block.address, keys.length, block.address + rowsAt,
        count, call.run(control), call.error())));
    Reference.reachabilityFence(control);
    float[] rows = new float[(int) count];
    block.floats(rowsAt, count).get(rows);
    Reference.reachabilityFence(name);
    return rows;
  }

  /** Starts building a batch for this model; it also fits any model of the same shape, such as the next version. */
  public BatchBuilder batch() {
    return new BatchBuilder(schema);
  }

  /** Room for the scores of up to {@code maxRows} rows. */
  public Scores newScores(int maxRows) {
    return newScores(maxRows, false);
  }

  /** The same, with the values before the heads' activations if wanted. */
  public Scores newScores(int maxRows, boolean withLogits) {
    return new Scores(maxRows, shape.heads(), withLogits);
  }

  /** A handle with its own scratch memory for one thread; {@code maxIds} 0 = one per bag. */
  public Context newContext(int maxRows, long maxIds) {
    CallBlock call = new CallBlock();
    call.check(inside(handle -> DpiNative.dpi_context_create(handle, maxRows, maxIds, call.extra(), call.error())));
    return new Context(call.extraLong(0), shape);
  }

  /** Rows of raw values, read by the bundle's own encoders. */
  public Rows newRows() {
    CallBlock call = new CallBlock();
    call.check(inside(handle -> DpiNative.dpi_rows_create(handle, call.extra(), call.error())));
    return new Rows(call.extraLong(0), schema);
  }

  /** Merges concurrent small requests to this model; {@code options} are those that the C header batcher.h lists, null: all defaults. */
  public Batcher newBatcher(Options options) {
    return new Batcher(this, null, () -> shape, options,
        (made, out, error) -> inside(handle -> DpiNative.dpi_batcher_create(handle, made, out, error)));
  }

  /** Scores the batch into {@code scores}: copies nothing and makes no garbage. */
  public void predict(Batch batch, Scores scores) {
    predict(batch, scores, null);
  }

  /** The same under a deadline or a cancel flag; {@code control} may be null. */
  public void predict(Batch batch, Scores scores, Control control) {
    Objects.requireNonNull(batch, "batch").score(guard, Batch.On.MODEL, shape, scores, control);
    Reference.reachabilityFence(this);
  }

  /** Scores the batch into new memory. */
  public Scores predict(Batch batch) {
    Scores scores = newScores(Objects.requireNonNull(batch, "batch").rows());
    predict(batch, scores);
    return scores;
  }

  /**
   * Scores rows of one id per slot from plain arrays, {@code [rows, denseDim]} and {@code [rows, slots]}; either may be
   * null when the model has none of its kind. Copies the arrays; returns {@code [rows, heads]}.
   */
  public float[] predict(float[] dense, long[] ids) {
    int rows = rowsOf(dense, ids);
    Pooled p = take(rows);
    try {
      Part part = p.batch().clear().item().rows(rows);
      part.check(dense, ids, null, null);
      if (dense != null) part.dense(dense);
      if (ids != null) part.ids(ids);
      predict(p.batch(), p.scores());
      return p.scores().toArray();
    } finally {
      give(p);
    }
  }

  private int rowsOf(float[] dense, long[] ids) {
    if (ids != null && shape.slots() > 0) return ids.length / shape.slots();
    if (dense != null && shape.denseDim() > 0) return dense.length / shape.denseDim();
    throw new IllegalArgumentException("neither ids nor dense values were given");
  }

  private Pooled take(int rows) {
    Pooled p = pool.poll();
    if (p != null) pooled.decrementAndGet();
    if (p != null && p.scores().maxRows() >= rows) return p;
    int room = Math.max(rows, Math.min(1 << 20, Integer.highestOneBit(Math.max(1, 2 * rows - 1))));
    return new Pooled(batch().maxRows(room).build(), newScores(room));
  }

  private void give(Pooled p) {
    if (pooled.incrementAndGet() <= POOL_MAX) {
      pool.offer(p);
    } else {
      pooled.decrementAndGet();
    }
  }

  /** For the benchmark, which makes the same call in C. */
  Guard guard() {
    return guard;
  }

  public boolean isClosed() {
    return guard.isClosed();
  }

  /** Ends the model's use; see the class's text. Contexts and rows made of it keep the native model until they close. */
  @Override
  public void close() {
    guard.close();
    pool.clear();
  }
}
