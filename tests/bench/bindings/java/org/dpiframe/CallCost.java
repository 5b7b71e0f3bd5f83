package org.dpiframe;

import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.Random;

/**
 * What a call from Java costs over the same call in C, on the same model and memory: rounds of both alternate, short enough
 * that some are undisturbed on a busy machine, and the medians and lower tenths of the rounds are compared. Arguments: libloop.so, bundle, seconds per line.
 */
final class CallCost {
  private static final int[] ROWS = {0, 1, 64, 512};

  static native long loop(long model, long batch, long out, long outLen, long error, int calls);

  private static final com.sun.management.ThreadMXBean THREADS =
      (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();

  private interface Call {
    void run();
  }

  /** Nanoseconds per call of each round, sorted, and the bytes of garbage per call. */
  private record Measured(double[] nanos, double bytes) {
    String text() {
      return String.format("%.0f, %.0f B", nanos[nanos.length / 2], bytes);
    }
  }

  public static void main(String[] args) {
    System.load(args[0]);
    double seconds = Double.parseDouble(args[2]);
    System.out.println("| rows | C | Java | over C: median (of lower tenths) | bytes per call | refilled from arrays | plain arrays |");
    System.out.println("|---:|---:|---:|---:|---:|---:|---:|");
    try (Model model = Model.builder().path(args[1]).device(Device.CPU).warmUpRows(512).load()) {
      for (int rows : ROWS) line(model, rows, seconds);
    }
  }

  private static void line(Model model, int rows, double seconds) {
    Schema schema = model.schema();
    Random random = new Random(1);
    long[] ids = new long[rows * schema.slots()];
    float[] dense = new float[rows * schema.denseDim()];
    Feature[] slots = new Feature[schema.slots()];
    for (Feature f : schema.features()) if (f.slot() >= 0) slots[f.slot()] = f;
    for (int i = 0; i < ids.length; i++) ids[i] = (long) (random.nextDouble() * slots[i % slots.length].vocabSize());
    for (int i = 0; i < dense.length; i++) dense[i] = random.nextFloat();
    Batch batch = model.batch().maxRows(Math.max(rows, 1)).build();
    Scores scores = model.newScores(Math.max(rows, 1));
    batch.item().rows(rows).dense(dense).ids(ids);
    model.predict(batch, scores);
    int calls = callsPerRound(() -> model.predict(batch, scores));
    int rounds = Math.max(11, (int) (seconds * 2000));
    long handle = model.guard().enter();
    double[] c = new double[rounds];
    double[] java = new double[rounds];
    long bytes = 0;
    for (int r = 0; r < rounds; r++) {
      c[r] = (double) loop(handle, batch.call().extra(), scores.address(), scores.capacity(), batch.call().error(), calls) / calls;
      long before = THREADS.getThreadAllocatedBytes(Thread.currentThread().getId());
      long start = System.nanoTime();
      for (int i = 0; i < calls; i++) model.predict(batch, scores);
      java[r] = (double) (System.nanoTime() - start) / calls;
      bytes += THREADS.getThreadAllocatedBytes(Thread.currentThread().getId()) - before;
    }
    model.guard().exit();
    Arrays.sort(c);
    Arrays.sort(java);
    int mid = rounds / 2;
    int low = rounds / 10;
    Measured refilled = measure(rounds / 2, calls, () -> {
      batch.clear().item().rows(rows).dense(dense).ids(ids);
      model.predict(batch, scores);
    });
    Measured arrays = rows == 0 ? refilled : measure(rounds / 2, calls, () -> model.predict(dense, ids));
    System.out.printf("| %d | %.0f | %.0f | %.0f (%.0f) | %.2f | %s | %s |%n", rows, c[mid], java[mid],
        java[mid] - c[mid], java[low] - c[low], bytes / ((double) rounds * calls), refilled.text(), arrays.text());
  }

  /** Warms the call up and sizes a round of about 0.2 ms. */
  private static int callsPerRound(Call call) {
    for (int i = 0; i < 30_000; i++) call.run();
    long start = System.nanoTime();
    for (int i = 0; i < 1000; i++) call.run();
    return (int) Math.max(2, Math.min(100_000, 200_000_000L / Math.max(1, System.nanoTime() - start)));
  }

  private static Measured measure(int rounds, int calls, Call call) {
    callsPerRound(call);
    double[] nanos = new double[rounds];
    long before = THREADS.getThreadAllocatedBytes(Thread.currentThread().getId());
    for (int r = 0; r < rounds; r++) {
      long start = System.nanoTime();
      for (int i = 0; i < calls; i++) call.run();
      nanos[r] = (double) (System.nanoTime() - start) / calls;
    }
    long bytes = THREADS.getThreadAllocatedBytes(Thread.currentThread().getId()) - before;
    Arrays.sort(nanos);
    return new Measured(nanos, bytes / ((double) rounds * calls));
  }
}
