package org.dpiframe;

import java.lang.ref.Reference;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.dpiframe.internal.DpiNative;
import org.dpiframe.internal.DpiNativeConstants;

/** Requests that wait for their completion, and the daemon thread that takes completions. Does not know its batcher, which may be lost. */
final class Completions {
  private static final int AT_ONCE = 32;
  private static final long POLL_MICROS = 100_000;
  private static final int SIZE = DpiNativeConstants.SIZEOF_dpi_completion;

  private final long handle;
  private final Guard under;
  private final Map<Long, Job> waiting = new HashMap<>();
  private final Block block = new Block((long) AT_ONCE * SIZE + Long.BYTES);  // and how many were taken
  private long lastKey;
  private Thread thread;
  private boolean ended;

  /** {@code under} may be null; its {@code exit} follows the end. */
  Completions(long handle, Guard under) {
    this.handle = handle;
    this.under = under;
    block.bytes.putInt(DpiNativeConstants.OFFSET_dpi_completion_struct_size, SIZE);
  }

  /** Before the request is submitted: its completion may come before the submit returns. */
  synchronized void add(Job job) {
    job.key = ++lastKey;
    waiting.put(job.key, job);
    if (thread == null) {
      thread = new Thread(this::run, "dpi-completions");
      thread.setDaemon(true);
      thread.start();
    }
    notifyAll();
  }

  /** After a submit that failed. */
  synchronized void drop(Job job) {
    waiting.remove(job.key);
    notifyAll();
  }

  private synchronized Job take(long key) {
    return waiting.remove(key);
  }

  /** Whether any request waits; returns false at the end. */
  private synchronized boolean someWait() {
    boolean interrupted = false;
    while (waiting.isEmpty() && !ended) {
      try {
        wait();
      } catch (InterruptedException e) {
        interrupted = true;
      }
    }
    if (interrupted) Thread.currentThread().interrupt();
    return !waiting.isEmpty();
  }

  private void run() {
    List<Runnable> told = new ArrayList<>();
    while (someWait()) {
      block.bytes.putLong(AT_ONCE * SIZE, 0);
      DpiNative.dpi_batcher_poll(handle, block.address, AT_ONCE, POLL_MICROS, block.address + AT_ONCE * SIZE, 0);
      for (int i = 0; i < block.bytes.getLong(AT_ONCE * SIZE); i++) told.add(ending(i * SIZE));
      for (Runnable one : told) tell(one);
      told.clear();
    }
    Reference.reachabilityFence(block);
  }

  /** What runs in a future is the caller's: it does not end this thread. */
  private static void tell(Runnable one) {
    try {
      one.run();
    } catch (RuntimeException | Error e) {
      System.getLogger("org.dpiframe").log(System.Logger.Level.WARNING, "a completion threw", e);
    }
  }

  private Runnable ending(int at) {
    var b = block.bytes;
    Job job = take(b.getLong(at + DpiNativeConstants.OFFSET_dpi_completion_user));
    int status = b.getInt(at + DpiNativeConstants.OFFSET_dpi_completion_status);
    long version = b.getLong(at + DpiNativeConstants.OFFSET_dpi_completion_version);
    long queued = b.getLong(at + DpiNativeConstants.OFFSET_dpi_completion_queued_ns);
    long run = b.getLong(at + DpiNativeConstants.OFFSET_dpi_completion_run_ns);
    if (status == 0) return () -> job.succeed(version, queued, run);
    DpiException failed = CallBlock.exceptionAt(block, at + DpiNativeConstants.OFFSET_dpi_completion_error, status);
    return () -> job.fail(failed);
  }

  void refuseOwnThread() {
    if (Thread.currentThread() == thread()) {
      throw new IllegalStateException("what depends on a submitted request must not close its batcher: use an executor");
    }
  }

  private synchronized Thread thread() {
    return thread;
  }

  /** Called once, when no call is inside the handle. */
  void end(long closed) {
    DpiNative.dpi_batcher_close(handle, 1, 0);
    Thread running;
    synchronized (this) {
      ended = true;
      running = thread;
      notifyAll();
    }
    if (Thread.currentThread() == running) {  // the last call was one of a future's own
      new Thread(() -> free(running), "dpi-completions-end").start();
    } else {
      free(running);
    }
  }

  private void free(Thread running) {
    boolean interrupted = false;
    while (running != null && running.isAlive()) {
      try {
        running.join();
      } catch (InterruptedException e) {
        interrupted = true;
      }
    }
    DpiNative.dpi_batcher_free(handle);
    if (under != null) under.exit();
    if (interrupted) Thread.currentThread().interrupt();
  }
}
