package org.dpiframe;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;

/**
 * Load options by key, as the C header lists them ({@code device, precision, threads, determinism, max_rows, max_nnz,
 * max_contexts, verify, require_signature, backend_dir, memory_limit, isa ...}). The library checks
 * them while loading: an unknown key is {@link DpiException.NotFound}, a bad value {@link DpiException.InvalidArgument}.
 */
public final class Options {
  private final Map<String, String> values = new LinkedHashMap<>();

  /** All defaults. */
  public Options() {}

  /** Any option by its key. */
  public Options set(String key, String value) {
    values.put(Objects.requireNonNull(key, "key"), Objects.requireNonNull(value, "value"));
    return this;
  }

  public Options device(Device device) {
    return set("device", Objects.requireNonNull(device, "device").option());
  }

  /** A plugin by its name: {@code libdpi_<name>.so}. */
  public Options device(String name) {
    return set("device", name);
  }

  /** Threads for large batches, of the environment; 1 = the caller's thread only. */
  public Options threads(int threads) {
    return set("threads", Integer.toString(threads));
  }

  /** Rows per internal chunk; larger batches run in several. */
  public Options maxRows(int rows) {
    return set("max_rows", Integer.toString(rows));
  }

  /** Calls that run at once; callers beyond it wait. */
  public Options maxContexts(int contexts) {
    return set("max_contexts", Integer.toString(contexts));
  }

  /** A row's bits do not depend on its batch. */
  public Options strict() {
    return set("determinism", "strict");
  }

  /** Recomputes the bundle's golden rows while loading. */
  public Options verify() {
    return set("verify", "golden");
  }

  Options copy() {
    Options o = new Options();
    o.values.putAll(values);
    return o;
  }

  Map<String, String> values() {
    return values;
  }
}
