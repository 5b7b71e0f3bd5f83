package org.dpiframe;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;

/** Closing, losing and sharing models. */
class LifetimeTest {
  private static final int THREADS = 32;

  private static <T> List<T> parallel(int threads, Callable<T> body) throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(threads);
    try {
      List<Future<T>> futures = new ArrayList<>();
      for (int t = 0; t < threads; t++) futures.add(pool.submit(body));
      List<T> results = new ArrayList<>();
      for (Future<T> f : futures) results.add(f.get());
      return results;
    } finally {
      pool.shutdown();
    }
  }

  @Test
  void closeTwiceAndUseAfterClose() {
    Model model = Support.adult();
    Batch batch = model.batch().maxRows(1).build();
    Rows rows = model.newRows();
    Context context = model.newContext(4, 0);
    model.close();
    model.close();
    assertTrue(model.isClosed());
    batch.item().rows(1);
    assertThrows(DpiException.Closed.class, () -> model.predict(batch));
    assertThrows(DpiException.Closed.class, model::infoJson);
    assertThrows(DpiException.Closed.class, model::newRows);
    assertThrows(DpiException.Closed.class, () -> model.newContext(1, 0));
    assertThrows(DpiException.Closed.class, () -> model.tableLookup("wide", new long[] {0}, 1));
    Scores scores = model.newScores(1);
    context.predict(batch, scores);  // keeps the native model
    assertEquals(1, scores.rows());
    rows.begin();
    assertEquals(1, rows.predict().rows());
    for (AutoCloseable c : List.of(context, rows)) {
      for (int i = 0; i < 2; i++) assertDoesNotThrow(c);
    }
    assertThrows(DpiException.Closed.class, () -> context.predict(batch, scores));
    assertThrows(DpiException.Closed.class, rows::begin);
  }

  private static void assertDoesNotThrow(AutoCloseable c) {
    org.junit.jupiter.api.Assertions.assertDoesNotThrow(c::close);
  }

  @Test
  void closeWhilePredicting() throws Exception {
    for (int round = 0; round < 20; round++) {
      Model model = Support.adult();
      Support.Arrays a = Support.whole(model.schema(), 64, false);
      int[] want = Support.bits(model.predict(a.dense, a.ids));
      CountDownLatch running = new CountDownLatch(4);
      Thread closer = new Thread(() -> {
        try {
          running.await();
        } catch (InterruptedException e) {
          return;
        }
        model.close();
      });
      closer.start();
      List<Integer> calls = parallel(4, () -> {
        Batch batch = model.batch().dense(a.dense).ids(a.ids).build();
        Scores scores = model.newScores(64);
        for (int n = 0;; n++) {
          try {
            model.predict(batch, scores);
          } catch (DpiException.Closed e) {
            running.countDown();
            return n;
          }
          assertArrayEquals(want, Support.bits(scores));
          running.countDown();
        }
      });
      closer.join();
      for (int n : calls) assertTrue(n >= 0);
    }
  }

  @Test
  void thirtyTwoThreadsOnOneModel() throws Exception {
    try (Model model = Model.builder().path(Support.demo("bank_dcnv2.h5")).device(Device.CPU).option("max_contexts", "4").load()) {
      Support.Arrays a = Support.whole(model.schema(), 17, false);
      int[] want = Support.bits(model.predict(a.dense, a.ids));
      parallel(THREADS, () -> {
        Batch batch = model.batch().dense(a.dense).ids(a.ids).build();
        Scores scores = model.newScores(17);
        for (int i = 0; i < 200; i++) {
          model.predict(batch, scores);
          assertArrayEquals(want, Support.bits(scores));
          if (i % 50 == 0) assertArrayEquals(want, Support.bits(model.predict(a.dense, a.ids)));
        }
        return null;
      });
    }
  }

  /** Garbage collections run beside calls whose batches and models are lost at once; then nothing is left over. */
  @Test
  void garbageCollection() throws Exception {
    parallel(4, () -> {
      for (int i = 0; i < 30; i++) {
        Model model = Support.adult();
        Support.Arrays a = Support.whole(model.schema(), 9, false);
        assertEquals(9, model.predict(model.batch().dense(a.dense).ids(a.ids).build()).rows());
        if (i % 10 == 0) System.gc();
        if (i % 3 != 0) model.close();
      }
      return null;
    });
    System.gc();
  }

  @Test
  void aThousandLoadsDoNotGrow() throws Exception {
    Path bundle = Support.demo("msweb_deepfm.h5");
    loadAndScore(bundle, 200);
    long before = residentKilobytes();
    loadAndScore(bundle, 1000);
    long grown = residentKilobytes() - before;
    assertTrue(grown < 48 * 1024, "grew by " + grown + " KiB over 1,000 loads");  // a leaked bundle would be 68 MB
  }

  private static void loadAndScore(Path bundle, int times) {
    for (int i = 0; i < times; i++) {
      try (Model model = Model.builder().path(bundle).device(Device.CPU).option("max_contexts", "1").load();
          Rows rows = model.newRows()) {
        assertEquals(1, rows.begin().set("visits", 2).predict().rows());
      }
      if (i % 100 == 99) System.gc();
    }
  }

  private static long residentKilobytes() throws Exception {
    System.gc();
    for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
      if (line.startsWith("VmRSS:")) return Long.parseLong(line.replaceAll("\\D", ""));
    }
    throw new IllegalStateException("no VmRSS");
  }

  @Test
  void oneThreadAtATimeIsEnforced() throws Exception {
    try (Model model = Support.adult()) {
      Batch batch = model.batch().maxRows(1).build();
      Scores scores = model.newScores(1);
      batch.item().rows(1);
      batch.enter(model.schema().shape(), scores);
      assertThrows(IllegalStateException.class, () -> model.predict(batch, scores));
      batch.exit();
      model.predict(batch, scores);
    }
  }

  /** No byte of the Java heap per call with a reusable batch. */
  @Test
  void noGarbagePerCall() {
    try (Model model = Support.adult()) {
      Support.Arrays a = Support.whole(model.schema(), 64, false);
      Batch batch = model.batch().dense(a.dense).ids(a.ids).build();
      Scores scores = model.newScores(64);
      Control control = new Control();
      var threads = (com.sun.management.ThreadMXBean) java.lang.management.ManagementFactory.getThreadMXBean();
      long self = Thread.currentThread().getId();
      for (int i = 0; i < 20_000; i++) call(model, batch, scores, control, a);
      long before = threads.getThreadAllocatedBytes(self);
      for (int i = 0; i < 10_000; i++) call(model, batch, scores, control, a);
      long bytes = threads.getThreadAllocatedBytes(self) - before;
      assertTrue(bytes < 10_000, bytes + " bytes in 10,000 calls");  // the measurement itself allocates a little
    }
  }

  private static void call(Model model, Batch batch, Scores scores, Control control, Support.Arrays a) {
    batch.clear().item().rows(64).dense(a.dense).ids(a.ids);
    model.predict(batch, scores, control);
  }
}
