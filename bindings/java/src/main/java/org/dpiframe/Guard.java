package org.dpiframe;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.ref.Cleaner;
import java.util.function.LongConsumer;

/**
 * Owns one native handle: counts the calls that are inside it, so that a close during a call leaves the freeing to the
 * last of them. Holds no reference to the Java object it guards; the cleaner runs it when that object is lost.
 *
 * <p>The state is the number of calls inside, the top bit once closed, the next one once freed.
 */
final class Guard implements Runnable {
  private static final Cleaner CLEANER = Cleaner.create();
  private static final boolean LEAK_SITES = Boolean.getBoolean("dpi.leakDetection");
  private static final System.Logger LOG = System.getLogger("org.dpiframe");
  private static final long CLOSED = Long.MIN_VALUE;
  private static final long FREED = CLOSED | (1L << 62);
  private static final VarHandle STATE;

  static {
    try {
      STATE = MethodHandles.lookup().findVarHandle(Guard.class, "state", long.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  private final String what;
  private final long handle;
  private final LongConsumer free;
  private final Throwable site;
  private Cleaner.Cleanable cleanable;

  @SuppressWarnings("unused")
  private volatile long state;

  /** {@code free} must not reach {@code owner}, or the owner would never be lost. */
  static Guard of(Object owner, String what, long handle, LongConsumer free) {
    Guard guard = new Guard(what, handle, free);
    guard.cleanable = CLEANER.register(owner, guard);
    return guard;
  }

  private Guard(String what, long handle, LongConsumer free) {
    this.what = what;
    this.handle = handle;
    this.free = free;
    this.site = LEAK_SITES ? new Throwable("created here") : null;
  }

  /** Enters a call that may run beside others; pair with {@link #exit()}. */
  long enter() {
    if ((long) STATE.getAndAdd(this, 1L) < 0) {
      exit();
      throw DpiException.closed(what);
    }
    return handle;
  }

  /** Enters a call that must be alone, of an object that belongs to one thread at a time. */
  long enterAlone() {
    if (!STATE.compareAndSet(this, 0L, 1L)) {
      if (state < 0) throw DpiException.closed(what);
      throw new IllegalStateException(what + " is in use by another thread; it belongs to one at a time");
    }
    return handle;
  }

  void exit() {
    if ((long) STATE.getAndAdd(this, -1L) - 1 == CLOSED) freeOnce();
  }

  boolean isClosed() {
    return state < 0;
  }

  /** Refuses further calls and frees the handle now, or when the last running call leaves. */
  void close() {
    shut();
    cleanable.clean();
  }

  /** The cleaner's entry; after {@link #close()} it finds the work done. */
  @Override
  public void run() {
    if (shut()) {
      LOG.log(System.Logger.Level.WARNING, what + " was garbage-collected without close()", site);
    }
  }

  private boolean shut() {
    for (;;) {
      long s = state;
      if (s < 0) return false;
      if (STATE.compareAndSet(this, s, s | CLOSED)) {
        if (s == 0) freeOnce();
        return true;
      }
    }
  }

  private void freeOnce() {
    if (STATE.compareAndSet(this, CLOSED, FREED)) free.accept(handle);
  }
}
