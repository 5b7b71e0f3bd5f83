package org.dpiframe;

import java.lang.ref.Reference;
import org.dpiframe.internal.DpiNative;

/** The library itself: versions, devices, log. */
public final class Dpi {
  private static final int LOG_TEXT = 4096;

  private Dpi() {}

  /** A message of the library. */
  public record LogMessage(System.Logger.Level level, String text) {}

  /** The loaded library's version, such as 1.0.0. */
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
    Block dir = backendDir != null ? Block.text(backendDir) : null;
    String json = Native.json((buf, cap) -> DpiNative.dpi_devices_json(dir != null ? dir.address : 0, buf, cap));
    Reference.reachabilityFence(dir);
    return json;
  }

  /** The oldest message that no one has taken yet, at or above WARNING; null when there is none. */
  public static LogMessage pollLog() {
    Native.ensure();
    Block block = new Block(LOG_TEXT + 8L);
    long size = DpiNative.dpi_log_poll(block.address + 8, LOG_TEXT, block.address);
    if (size == 0) return null;
    LogMessage message = new LogMessage(levelOf(block.bytes.getInt(0)), block.textAt(8, LOG_TEXT));
    Reference.reachabilityFence(block);
    return message;
  }

  private static System.Logger.Level levelOf(int level) {
    return switch (level) {
      case 0 -> System.Logger.Level.DEBUG;
      case 1 -> System.Logger.Level.INFO;
      case 2 -> System.Logger.Level.WARNING;
      default -> System.Logger.Level.ERROR;
    };
  }

  /** Hands the library's messages to {@code logger} from a daemon thread that looks every {@code millis}, until closed. */
  public static AutoCloseable bridgeLog(System.Logger logger, long millis) {
    Native.ensure();
    if (millis < 1) throw new IllegalArgumentException("millis is " + millis);
    Thread poller = new Thread(() -> {
      while (!Thread.currentThread().isInterrupted()) {
        drain(logger);
        try {
          Thread.sleep(millis);
        } catch (InterruptedException e) {
          break;
        }
      }
      drain(logger);
    }, "dpi-log");
    poller.setDaemon(true);
    poller.start();
    return () -> {
      poller.interrupt();
      poller.join();
    };
  }

  private static void drain(System.Logger logger) {
    for (LogMessage m = pollLog(); m != null; m = pollLog()) logger.log(m.level(), m.text());
  }
}
