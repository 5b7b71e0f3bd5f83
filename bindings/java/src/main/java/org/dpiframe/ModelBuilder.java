package org.dpiframe;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.Map;
import java.util.Objects;
import org.dpiframe.internal.DpiNative;

/** Says what to load and how; {@link #load()} does it. */
public final class ModelBuilder {
  private String path;
  private ByteBuffer bytes;
  private Options options = new Options();
  private Environment environment;
  private Control control;
  private long warmUpRows;

  ModelBuilder() {}

  /** A bundle's file. */
  public ModelBuilder path(String path) {
    this.path = Objects.requireNonNull(path, "path");
    return this;
  }

  /** A bundle's file. */
  public ModelBuilder path(Path path) {
    return path(Objects.requireNonNull(path, "path").toString());
  }

  /** A bundle in memory, which may be dropped after {@link #load()}. */
  public ModelBuilder bytes(byte[] bundle) {
    bytes = ByteBuffer.allocateDirect(Objects.requireNonNull(bundle, "bundle").length).put(0, bundle);
    return this;
  }

  /** A bundle in a direct buffer, from position 0 to its limit; not copied. */
  public ModelBuilder bytes(ByteBuffer direct) {
    if (!Objects.requireNonNull(direct, "direct").isDirect()) throw new IllegalArgumentException("the buffer is not direct");
    bytes = direct;
    return this;
  }

  public ModelBuilder options(Options options) {
    this.options = Objects.requireNonNull(options, "options").copy();
    return this;
  }

  public ModelBuilder option(String key, String value) {
    options.set(key, value);
    return this;
  }

  public ModelBuilder device(Device device) {
    options.device(device);
    return this;
  }

  /** What the model shares with others; without it {@link Environment#process()}. */
  public ModelBuilder environment(Environment environment) {
    this.environment = Objects.requireNonNull(environment, "environment");
    return this;
  }

  /** {@link Control#cancel()} stops the load with {@link DpiException.Cancelled}; a deadline is not looked at. */
  public ModelBuilder control(Control control) {
    this.control = Objects.requireNonNull(control, "control");
    return this;
  }

  /** Runs batches of up to so many rows through every context while loading, so that no later call pays for a first time. */
  public ModelBuilder warmUpRows(long rows) {
    warmUpRows = rows;
    return this;
  }

  /** Reads, checks and prepares the bundle. */
  public Model load() {
    if ((path == null) == (bytes == null)) throw new IllegalStateException("give either a path or bytes");
    CallBlock call = new CallBlock();
    long nativeOptions = nativeOptions(options, environment, call);
    try {
      if (control != null) {
        call.check(DpiNative.dpi_options_set_progress(nativeOptions, 0, 0, control.flagAddress(), call.error()));
      }
      call.extraLong(0, 0);
      call.check(load(nativeOptions, call));
    } finally {
      DpiNative.dpi_options_free(nativeOptions);
      Reference.reachabilityFence(control);
    }
    Model model = new Model(call.extraLong(0));
    if (warmUpRows > 0) warm(model);
    return model;
  }

  /** A dpi_options, which the caller frees. {@code environment} may be null. */
  static long nativeOptions(Options options, Environment environment, CallBlock call) {
    long made = DpiNative.dpi_options_create();
    boolean ready = false;
    try {
      for (Map.Entry<String, String> e : options.values().entrySet()) {
        Block key = Block.text("key", e.getKey());
        Block value = Block.text("value", e.getValue());
        call.check(DpiNative.dpi_options_set(made, key.address, value.address, call.error()));
        Reference.reachabilityFence(key);
        Reference.reachabilityFence(value);
      }
      if (environment != null) {
        call.check(environment.inside(env -> DpiNative.dpi_options_set_env(made, env, call.error())));
      }
      ready = true;
      return made;
    } finally {
      if (!ready) DpiNative.dpi_options_free(made);
    }
  }

  private int load(long nativeOptions, CallBlock call) {
    if (path == null) {
      int code = DpiNative.dpi_model_load_memory(
          Native.address(bytes), bytes.limit(), nativeOptions, call.extra(), call.error());
      Reference.reachabilityFence(bytes);
      return code;
    }
    Block file = Block.text("path", path);
    int code = DpiNative.dpi_model_load(file.address, nativeOptions, call.extra(), call.error());
    Reference.reachabilityFence(file);
    return code;
  }

  private void warm(Model model) {
    try {
      model.warmUp(warmUpRows);
    } catch (RuntimeException e) {
      model.close();
      throw e;
    }
  }
}
