package org.dpiframe;

import java.lang.ref.Reference;
import java.time.Duration;
import java.util.Objects;
import java.util.function.LongFunction;
import org.dpiframe.internal.DpiNative;
import org.dpiframe.internal.DpiNativeConstants;

/**
 * What models share: worker threads, and where the library's messages go. Models loaded without one share {@link #process()}.
 * A model keeps the native environment it was loaded in, also past {@link #close()}. Any number of threads may use one.
 *
 * <pre>{@code
 * try (Environment environment = new Environment().logLevel(System.Logger.Level.DEBUG);
 *     AutoCloseable bridge = environment.bridgeLog(System.getLogger("dpi"), Duration.ofMillis(100));
 *     Model model = Model.builder().path("ctr.h5").environment(environment).load()) { ... }
 * }</pre>
 */
public final class Environment implements AutoCloseable {
  private static final int LOG_TEXT = 4096;  // no text of the library is longer
  private static final Environment PROCESS = new Environment((Void) null);

  private final Guard guard;  // null: the process's, which nothing frees

  /** A message of the library, such as "plugin: /opt/x/libdpi_cuda.so is not used: ...". */
  public record LogMessage(System.Logger.Level level, String text) {}

  /** A new one, with threads and messages of its own. */
  public Environment() {
    CallBlock call = new CallBlock();
    call.extraLong(0, 0);
    call.check(DpiNative.dpi_env_create(call.extra(), call.error()));
    guard = Guard.of(this, "the environment", call.extraLong(0), DpiNative::dpi_env_free);
  }

  private Environment(Void process) {
    guard = null;
  }

  /** The one of models loaded without any. {@link #close()} leaves it as it is. */
  public static Environment process() {
    return PROCESS;
  }

  /** Runs {@code body} while nothing frees the handle. */
  <T> T inside(LongFunction<T> body) {
    Native.ensure();
    if (guard == null) return body.apply(0);
    long handle = guard.enter();
    try {
      return body.apply(handle);
    } finally {
      guard.exit();
      Reference.reachabilityFence(this);
    }
  }

  /** Any key that the C header lists under dpi_env_set: threads, spin_us. */
  public Environment set(String key, String value) {
    CallBlock call = new CallBlock();
    Block k = Block.text("key", key);
    Block v = Block.text("value", value);
    call.check(inside(handle -> DpiNative.dpi_env_set(handle, k.address, v.address, call.error())));
    Reference.reachabilityFence(k);
    Reference.reachabilityFence(v);
    return this;
  }

  /** Threads that one call may use at most; 0 = what its model asks for. To be set before models are loaded. */
  public Environment threads(int most) {
    return set("threads", Integer.toString(most));
  }

  /** The least level of messages that are kept; at first {@code WARNING}. */
  public Environment logLevel(System.Logger.Level level) {
    CallBlock call = new CallBlock();
    int number = numberOf(Objects.requireNonNull(level, "level"));
    call.check(inside(handle -> DpiNative.dpi_env_set_log(handle, 0, 0, number, call.error())));
    return this;
  }

  /** The oldest of the last 256 messages that no one has taken yet; null when there is none. */
  public LogMessage pollLog() {
    Native.ensure();
    Block block = new Block(LOG_TEXT + 8L);
    long size = inside(handle -> DpiNative.dpi_env_poll_log(handle, block.address + 8, LOG_TEXT, block.address));
    if (size == 0) return null;
    LogMessage message = new LogMessage(levelOf(block.bytes.getInt(0)), block.textAt(8, LOG_TEXT));
    Reference.reachabilityFence(block);
    return message;
  }

  /**
   * Hands the messages to {@code logger} from a daemon thread that looks every {@code period}, until closed; what is kept then is
   * still handed over. Close it before the environment.
   */
  public AutoCloseable bridgeLog(System.Logger logger, Duration period) {
    Objects.requireNonNull(logger, "logger");
    long millis = Objects.requireNonNull(period, "period").toMillis();
    if (millis < 1) throw new IllegalArgumentException("period is " + period + ", expected a millisecond or more");
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

  /** {@link #metrics(boolean, boolean)} in Prometheus' text format 0.0.4. */
  public String metrics() {
    return metrics(false, false);
  }

  /**
   * Counters, latencies and sizes of all models and endpoints of the environment, for a monitoring system: what a service writes behind its
   * own at {@code /metrics}. The C header metrics.h lists the families. {@code openMetrics}: OpenMetrics 1.0, which ends in "# EOF"; {@code
   * fine}: every bound of the histograms, 16 to an octave instead of 4.
   */
  public String metrics(boolean openMetrics, boolean fine) {
    int flags = (openMetrics ? DpiNativeConstants.DPI_METRICS_OPENMETRICS : 0) | (fine ? DpiNativeConstants.DPI_METRICS_FINE : 0);
    return inside(handle -> Native.json((buf, cap) -> DpiNative.dpi_metrics(handle, flags, buf, cap)));
  }

  private void drain(System.Logger logger) {
    if (guard != null && guard.isClosed()) return;
    for (LogMessage m = pollLog(); m != null; m = pollLog()) logger.log(m.level(), m.text());
  }

  private static int numberOf(System.Logger.Level level) {
    return switch (level) {
      case ALL, TRACE, DEBUG -> 0;
      case INFO -> 1;
      case WARNING -> 2;
      case ERROR -> 3;
      case OFF -> 4;
    };
  }

  private static System.Logger.Level levelOf(int level) {
    return switch (level) {
      case 0 -> System.Logger.Level.DEBUG;
      case 1 -> System.Logger.Level.INFO;
      case 2 -> System.Logger.Level.WARNING;
      default -> System.Logger.Level.ERROR;
    };
  }

  /** Drops this handle; models loaded in the environment keep it until they are closed. */
  @Override
  public void close() {
    if (guard != null) guard.close();
  }
}
