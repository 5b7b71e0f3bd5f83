package org.dpiframe;

import java.lang.ref.Reference;
import org.dpiframe.internal.DpiNative;

/** The library itself: versions, devices. Its messages come by {@link Environment}. */
public final class Dpi {
  private Dpi() {}

  /** The loaded library's version, such as 1.2.0. */
  public static String version() {
    Native.ensure();
    return Native.versionText(DpiNative.dpi_version());
  }

  /** The version that this binding was built for. */
  public static String bindingVersion() {
    return Native.versionText(org.dpiframe.internal.DpiNativeConstants.DPI_VERSION_NUMBER);
  }

  /** Version, compiler, backends, libraries, and the path of the loaded file. */
  public static String buildInfoJson() {
    Native.ensure();
    return Native.textOf(DpiNative.dpi_build_info_json());
  }

  /** Every backend, usable or refused with its reason. */
  public static String devicesJson() {
    return devicesJson(null);
  }

  /** The same, looking for plugins in {@code backendDir} first. */
  public static String devicesJson(String backendDir) {
    Native.ensure();
    Block dir = backendDir != null ? Block.text("backendDir", backendDir) : null;
    String json = Native.json((buf, cap) -> DpiNative.dpi_devices_json(dir != null ? dir.address : 0, buf, cap));
    Reference.reachabilityFence(dir);
    return json;
  }
}
