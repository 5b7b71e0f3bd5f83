package org.dpiframe;

import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.dpiframe.internal.DpiNative;
import org.dpiframe.internal.DpiNativeConstants;

/**
 * The door to the generated calls: loading this class loads the library and compares the versions. A failure is
 * remembered and thrown again by every later call.
 */
final class Native {
  private static final RuntimeException FAILURE = load();

  private Native() {}

  private static RuntimeException load() {
    try {
      Loader.load();
      String info = textOf(DpiNative.dpi_build_info_json());
      checkVersion(DpiNative.dpi_version(), DpiNativeConstants.DPI_VERSION_NUMBER, info);
      return null;
    } catch (RuntimeException e) {
      return e;
    }
  }

  /** Throws what loading failed with; cheap afterwards. */
  static void ensure() {
    if (FAILURE == null) return;
    if (FAILURE instanceof DpiException e) {
      DpiException again = DpiException.of(DpiException.Detail.of(e.status(), e.getMessage()));
      again.initCause(e);
      throw again;
    }
    throw new IllegalStateException(FAILURE.getMessage(), FAILURE);
  }

  /** The same major version, and a library at least as new as the binding in minor. */
  static void checkVersion(long library, int binding, String buildInfo) {
    if (library / 10000 == binding / 10000 && library / 100 >= binding / 100) return;
    throw DpiException.of(DpiException.Detail.of(Status.VERSION,
        "the Java binding is of version " + versionText(binding) + ", the loaded library of version "
            + versionText(library) + "; the library says: " + buildInfo));
  }

  static String versionText(long number) {
    return number / 10000 + "." + number / 100 % 100 + "." + number % 100;
  }

  static long address(Buffer direct) {
    ensure();
    return DpiNative.dpi_java_buffer_address(direct);
  }

  /** The NUL-terminated UTF-8 text at an address; null for 0. */
  static String textOf(long address) {
    if (address == 0) return null;
    int size = Math.toIntExact(DpiNative.dpi_java_text_length(address));
    if (size == 0) return "";
    byte[] utf8 = new byte[size];
    ByteBuffer view = DpiNative.dpi_java_buffer_over(address, size);
    view.get(utf8);
    return new String(utf8, StandardCharsets.UTF_8);
  }

  /** A *_json call: writes at most {@code cap} bytes and returns those needed. */
  interface JsonCall {
    long get(long buf, long cap);
  }

  static String json(JsonCall call) {
    long need = call.get(0, 0);
    while (need > 0) {
      Block block = new Block(need);
      long got = call.get(block.address, need);
      if (got <= need) {
        String text = block.textAt(0, (int) need);
        java.lang.ref.Reference.reachabilityFence(block);
        return text;
      }
      need = got;  // it grew between the two calls
    }
    return "";
  }

  /** Offsets and sizes of the C structs, as the wrapper's compiler saw them. */
  static final class Layout {
    static final int ERROR_SIZE = DpiNativeConstants.SIZEOF_dpi_error;
    static final int ERROR_CODE = DpiNativeConstants.OFFSET_dpi_error_code;
    static final int ERROR_ROW = DpiNativeConstants.OFFSET_dpi_error_row;
    static final int ERROR_FEATURE = DpiNativeConstants.OFFSET_dpi_error_feature;
    static final int ERROR_NATIVE = DpiNativeConstants.OFFSET_dpi_error_native_code;
    static final int ERROR_IN_SHARED = DpiNativeConstants.OFFSET_dpi_error_in_shared;
    static final int ERROR_MESSAGE = DpiNativeConstants.OFFSET_dpi_error_message;
    static final int MESSAGE_SIZE = DpiNativeConstants.SIZEOF_dpi_error_message;
    static final int RUN_SIZE = DpiNativeConstants.SIZEOF_dpi_run_options;
    static final int RUN_DEADLINE = DpiNativeConstants.OFFSET_dpi_run_options_deadline_ns;
    static final int RUN_CANCEL = DpiNativeConstants.OFFSET_dpi_run_options_cancel;
    static final int RUN_LOGITS = DpiNativeConstants.OFFSET_dpi_run_options_logits;
    static final int RUN_LOGITS_LEN = DpiNativeConstants.OFFSET_dpi_run_options_logits_len;
    static final int RUN_VERSION = DpiNativeConstants.OFFSET_dpi_run_options_version;
    static final int BATCH_SIZE = DpiNativeConstants.SIZEOF_dpi_batch;

    private Layout() {}
  }
}
