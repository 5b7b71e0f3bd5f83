package org.dpiframe;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.Objects;

/**
 * Deadline and cancellation of calls, for {@link Model#predict(Batch, Scores, Control)} and {@link
 * Rows#predict(Scores, Control)}. Reusable. {@link #cancel()} may be called by any thread; it stops every call under this
 * control at the next check (on entry, while waiting, between chunks of rows) until {@link #reset()}.
 */
public final class Control {
  private static final VarHandle FLAG =
      MethodHandles.byteBufferViewVarHandle(int[].class, ByteOrder.nativeOrder());

  private final Block flag = new Block(Integer.BYTES);
  private volatile long deadline;

  /** Without a deadline, not cancelled. */
  public Control() {}

  /** The latest moment by {@link System#nanoTime()}, which is the library's clock; 0 = none. */
  public Control deadlineNanos(long nanoTime) {
    deadline = nanoTime;
    return this;
  }

  /** A deadline {@code timeout} from now. */
  public Control timeout(Duration timeout) {
    return deadlineNanos(momentAfter(timeout));
  }

  /** So long from now, by {@link System#nanoTime()}; what lies beyond the clock's end is its end. */
  static long momentAfter(Duration time) {
    Objects.requireNonNull(time, "timeout");
    long now = System.nanoTime();
    if (time.isNegative()) return 1;
    return time.compareTo(Duration.ofNanos(Long.MAX_VALUE - now)) < 0 ? Math.max(1, now + time.toNanos()) : Long.MAX_VALUE;
  }

  /** Stops the calls under this control with {@link DpiException.Cancelled}. */
  public void cancel() {
    FLAG.setVolatile(flag.bytes, 0, 1);
  }

  /** No deadline, not cancelled. */
  public Control reset() {
    deadline = 0;
    FLAG.setVolatile(flag.bytes, 0, 0);
    return this;
  }

  long deadline() {
    return deadline;
  }

  long flagAddress() {
    return flag.address;
  }
}
