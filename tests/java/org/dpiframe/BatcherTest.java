package org.dpiframe;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Batchers: the scores of direct calls, one end for each submitted request, and what is refused. */
@Timeout(value = 3, unit = TimeUnit.MINUTES)
class BatcherTest {
  /** Makes a request wait for others for a second, even on an idle machine. */
  private static final Options WAITING = new Options().set("batch.max_delay_us", "1000000");

  private static Model strict(String demo) {
    return Model.builder().path(Support.demo(demo)).device(Device.CPU).option("determinism", "strict").load();
  }

  private static Batch batch(Model model, int rows, int seed) {
    Schema schema = model.schema();
    Support.Draw draw = new Support.Draw();
    for (int i = 0; i < 7 * seed; i++) draw.below(2);
    Support.Arrays a = new Support.Arrays(draw, Support.slots(schema, false, false), schema.denseDim(), rows, true);
    return model.batch().rows(rows).dense(a.dense).ids(a.ids).offsets(a.offsets).build();
  }

  private static int[] direct(Model model, Batch batch) {
    return Support.bits(model.predict(batch));
  }

  private static DpiException failure(CompletableFuture<?> future) {
    return assertInstanceOf(DpiException.class, assertThrows(ExecutionException.class, () -> future.get(1, TimeUnit.MINUTES)).getCause());
  }

  private interface Work {
    void run(int thread) throws Exception;
  }

  /** Runs it in so many threads; what they throw is in the list. */
  private static List<String> inThreads(int count, Work work) throws Exception {
    ConcurrentLinkedQueue<String> wrong = new ConcurrentLinkedQueue<>();
    List<Thread> threads = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      int number = i;
      threads.add(new Thread(() -> {
        try {
          work.run(number);
        } catch (Throwable e) {
          wrong.add(e.toString());
        }
      }));
    }
    threads.forEach(Thread::start);
    for (Thread t : threads) t.join();
    return List.copyOf(wrong);
  }

  @Test
  void givesTheBitsOfDirectCalls() throws Exception {
    for (String demo : List.of("adult_widedeep.h5", "msweb_deepfm.h5")) {
      try (Model model = strict(demo); Batcher batcher = model.newBatcher(new Options().set("batch.max_delay_us", "500").set("batch.queue", "16"))) {
        assertEquals(List.of(), inThreads(16, thread -> {
          for (int round = 0; round < 8; round++) {
            int rows = 1 + (thread + round) % 4;
            Batch batch = batch(model, rows, 16 * thread + round);
            int[] want = direct(model, batch);
            Scores scores = model.newScores(4);
            batcher.predict(batch, scores);
            assertArrayEquals(want, Support.bits(scores));
            assertEquals(model.info().version(), scores.version());
            Scores later = model.newScores(4);
            CompletableFuture<Batcher.Completion> future = batcher.submit(batch, later, null);
            for (int k = 0; k < batch.item().ids().capacity(); k++) batch.item().ids().put(k, -1);  // it was read
            batch = null;
            if (round % 4 == 0) System.gc();
            Batcher.Completion done = future.get(1, TimeUnit.MINUTES);
            assertSame(later, done.scores());
            assertArrayEquals(want, Support.bits(later));
            assertEquals(model.info().version(), done.version());
            assertEquals(model.info().version(), later.version());
            assertTrue(done.runNanos() > 0 && done.queuedNanos() >= 0, done.toString());
          }
        }));
        String status = batcher.statusJson();
        assertTrue(status.contains("\"submitted\":128") && status.contains("\"completed\":128"), status);
        assertFalse(status.contains("\"largest_chunk\":1,"), status);
      }
    }
  }

  @Test
  void scoresRawRows() throws Exception {
    try (Model model = strict("adult_widedeep.h5"); Batcher batcher = model.newBatcher(null); Rows rows = model.newRows()) {
      Scores want = model.newScores(1);
      Scores scores = model.newScores(1);
      rows.begin().set("age", 39L);
      rows.predict(want);
      batcher.predict(rows, scores, null);
      assertArrayEquals(Support.bits(want), Support.bits(scores));
      Scores later = model.newScores(1);
      CompletableFuture<Batcher.Completion> future = batcher.submit(rows, later, null);
      rows.clear().begin().set("age", 80L);  // the rows are free again
      future.get(1, TimeUnit.MINUTES);
      assertArrayEquals(Support.bits(want), Support.bits(later));
      try (Model other = strict("bank_dcnv2.h5"); Batcher another = other.newBatcher(null)) {
        assertThrows(DpiException.InvalidArgument.class, () -> another.predict(rows, scores, null));
        assertThrows(DpiException.InvalidArgument.class, () -> another.submit(rows, scores, null));
      }
      rows.close();
      assertThrows(DpiException.Closed.class, () -> batcher.submit(rows, scores, null));
      assertThrows(NullPointerException.class, () -> batcher.submit((Rows) null, scores, null));
      assertThrows(NullPointerException.class, () -> batcher.submit((Batch) null, scores, null));
    }
  }

  @Test
  void errorsAreTheRequestsOwn() {
    try (Model model = strict("msweb_deepfm.h5"); Batcher batcher = model.newBatcher(null)) {
      Batch bad = model.batch().maxRows(3).build();  // one id per slot
      bad.item().rows(3);
      bad.item().ids().put(2 * model.schema().slots() + model.schema().feature("visits").slot(), 7);  // its rule makes that an error
      Scores scores = model.newScores(3);
      DpiException direct = assertThrows(DpiException.InvalidArgument.class, () -> model.predict(bad, scores));
      DpiException blocking = assertThrows(DpiException.InvalidArgument.class, () -> batcher.predict(bad, scores));
      assertEquals(2, blocking.row());
      assertEquals(direct.getMessage(), blocking.getMessage());
      assertEquals(2, assertThrows(DpiException.InvalidArgument.class, () -> batcher.submit(bad, scores, null)).row());
      Batch good = batch(model, 2, 1);
      assertThrows(DpiException.InvalidArgument.class, () -> batcher.submit(good, model.newScores(1), null));
      assertThrows(DpiException.InvalidArgument.class, () -> batcher.submit(good.clear(), scores, null));
      assertThrows(DpiException.InvalidArgument.class, () -> model.newBatcher(new Options().set("batch.max_rows", "0")));
      assertThrows(DpiException.NotFound.class, () -> model.newBatcher(new Options().set("batch.max_row", "1")));
    }
  }

  @Test
  void cancels() throws Exception {
    try (Model model = strict("adult_widedeep.h5"); Batcher batcher = model.newBatcher(WAITING)) {
      Batch batch = batch(model, 1, 1);
      Scores scores = model.newScores(1);
      CompletableFuture<Batcher.Completion> future = batcher.submit(batch, scores, null);
      assertTrue(future.cancel(true));
      assertTrue(future.isCancelled());
      assertTrue(future.cancel(true));
      assertThrows(CancellationException.class, future::get);
      assertEquals(0, scores.rows());
      Control control = new Control().timeout(Duration.ofMillis(30));
      assertEquals(Status.TIMEOUT, failure(batcher.submit(batch, model.newScores(1), control)).status());
      control.reset();
      future = batcher.submit(batch, scores, control);
      control.cancel();
      assertEquals(Status.CANCELLED, failure(future).status());
      assertThrows(DpiException.Cancelled.class, () -> batcher.predict(batch, scores, control));
      control.reset();
      future = batcher.submit(batch, scores, null);
      assertEquals(1, future.get(1, TimeUnit.MINUTES).scores().rows());  // after its second
      assertFalse(future.cancel(true));
    }
  }

  @Test
  void futuresMaySubmitAndNotClose() throws Exception {
    Options options = new Options().set("batch.max_delay_us", "100000");  // so that what follows is known before the end
    try (Model model = strict("adult_widedeep.h5"); Batcher batcher = model.newBatcher(options)) {
      Batch batch = batch(model, 2, 3);
      int[] want = direct(model, batch);
      Scores first = model.newScores(2);
      Scores second = model.newScores(2);
      AtomicReference<Throwable> closing = new AtomicReference<>();
      batcher.submit(batch, first, null).thenCompose(done -> {
        try {
          batcher.close();
        } catch (IllegalStateException e) {
          closing.set(e);
        }
        return batcher.submit(batch, second, null);
      }).get(1, TimeUnit.MINUTES);
      assertInstanceOf(IllegalStateException.class, closing.get());
      assertArrayEquals(want, Support.bits(second));
      batcher.submit(batch, first, null).thenRun(() -> {
        throw new AssertionError("of a user");
      });
      batcher.submit(batch, model.newScores(2), null).get(1, TimeUnit.MINUTES);  // the thread goes on
    }
  }

  /** Each submitted request ends once, whatever overlaps. */
  @Test
  void closesOverWork() throws Exception {
    try (Model model = strict("adult_widedeep.h5")) {
      int[] want = direct(model, batch(model, 2, 7));
      for (int round = 0; round < 12; round++) {
        Batcher batcher = model.newBatcher(new Options().set("batch.max_delay_us", List.of("0", "300", "1000000").get(round % 3)));
        AtomicLong submitted = new AtomicLong();
        AtomicLong ended = new AtomicLong();
        int number = round;
        Thread closer = new Thread(() -> {
          try {
            Thread.sleep(2 * number);
          } catch (InterruptedException e) {
            throw new IllegalStateException(e);
          }
          batcher.close(Duration.ofMillis(number % 2 * 2));
        });
        closer.start();
        assertEquals(List.of(), inThreads(6, thread -> {
          Random random = new Random(100L * number + thread);
          Batch batch = batch(model, 2, 7);
          for (;;) {
            Scores scores = model.newScores(2);
            try {
              if (thread < 2) {
                batcher.predict(batch, scores);
                assertArrayEquals(want, Support.bits(scores));
                continue;
              }
              CompletableFuture<Batcher.Completion> future = batcher.submit(batch, scores, null);
              submitted.incrementAndGet();
              boolean cancelled = random.nextInt(3) == 0 && future.cancel(true);
              try {
                future.get(1, TimeUnit.MINUTES);
                assertFalse(cancelled);
                assertArrayEquals(want, Support.bits(scores));
              } catch (CancellationException e) {
                assertTrue(cancelled);
              } catch (ExecutionException e) {
                assertEquals(Status.CANCELLED, ((DpiException) e.getCause()).status());
              }
              ended.incrementAndGet();
            } catch (DpiException.QueueFull e) {
              Thread.sleep(1);
            } catch (DpiException.Closed | DpiException.Cancelled e) {
              return;
            }
          }
        }));
        closer.join();
        assertEquals(submitted.get(), ended.get());
        assertTrue(batcher.isClosed());
      }
    }
  }

  @Test
  void useAfterClose() throws Exception {
    try (Model model = strict("adult_widedeep.h5"); Rows rows = model.newRows()) {
      Batcher batcher = model.newBatcher(WAITING);
      Batch batch = batch(model, 1, 1);
      CompletableFuture<Batcher.Completion> taken = batcher.submit(batch, model.newScores(1), null);
      assertFalse(batcher.close(Duration.ZERO));
      assertEquals(Status.CANCELLED, failure(taken).status());
      assertFalse(taken.cancel(true));
      batcher.close();
      assertTrue(batcher.close(Duration.ofSeconds(1)));
      Scores scores = model.newScores(1);
      assertThrows(DpiException.Closed.class, () -> batcher.predict(batch, scores));
      assertThrows(DpiException.Closed.class, () -> batcher.predict(rows, scores, null));
      assertThrows(DpiException.Closed.class, () -> batcher.submit(batch, scores, null));
      assertThrows(DpiException.Closed.class, () -> batcher.submit(rows, scores, null));
      assertThrows(DpiException.Closed.class, batcher::statusJson);
      Batcher finishing = model.newBatcher(new Options().set("batch.max_delay_us", "20000"));
      List<CompletableFuture<Batcher.Completion>> all = new ArrayList<>();
      for (int i = 0; i < 20; i++) all.add(finishing.submit(batch, model.newScores(1), null));
      assertTrue(finishing.close(Duration.ofMinutes(1)));
      for (CompletableFuture<Batcher.Completion> one : all) assertEquals(1, one.get(0, TimeUnit.SECONDS).scores().rows());
      model.close();
      assertThrows(DpiException.Closed.class, () -> model.newBatcher(null));
    }
  }

  @Test
  void overAnEndpoint(@TempDir Path folder) throws Exception {
    Support.run(List.of("/usr/bin/python3", "-B", Support.ROOT.resolve("tests/capi/make_versions.py").toString(), folder.toString()));
    Environment environment = new Environment();
    Endpoint e = new Endpoint("batched", new Options().device(Device.CPU), environment);
    Batcher batcher = e.newBatcher(null);
    e.load(folder.resolve("1.h5").toString(), 1);
    Batch batch = e.batch().maxRows(1).build();
    batch.item().rows(1).ids(new long[] {1, 2});
    boolean[] stop = new boolean[1];
    Thread loads = new Thread(() -> {
      for (int n = 2; n < 40; n++) e.load(folder.resolve(n % 16 + ".h5").toString(), n);
      synchronized (stop) {
        stop[0] = true;
      }
    });
    loads.start();
    assertEquals(List.of(), inThreads(6, thread -> {
      Batch own = e.batch().maxRows(1).build();
      own.item().rows(1).ids(new long[] {thread, 2});
      for (;;) {
        synchronized (stop) {
          if (stop[0]) return;
        }
        Scores scores = e.newScores(1);
        if (thread % 2 == 0) {
          batcher.predict(own, scores);
        } else {
          assertEquals(scores.version(), 0);
          assertEquals(batcher.submit(own, scores, null).get(1, TimeUnit.MINUTES).version(), scores.version());
        }
        assertEquals(33 * (scores.version() % 16 + 1) + (thread + 2) / 1024f, scores.get(0));
      }
    }));
    loads.join();
    e.close();  // its memory stays until the batcher goes
    Scores scores = new Scores(1, 1, false);
    batcher.predict(batch, scores);
    assertEquals(39, scores.version());
    batcher.close();
    assertThrows(DpiException.Closed.class, () -> e.newBatcher(null));
    environment.close();
  }

  /** Lost ones end their threads: a model has at most 16 batchers. */
  @Test
  void isCollected() throws Exception {
    try (Model model = strict("adult_widedeep.h5")) {
      for (int i = 0; i < 40; i++) {
        Batcher batcher = null;
        for (int wait = 0; batcher == null; wait++) {
          try {
            batcher = model.newBatcher(null);
          } catch (DpiException.Unsupported e) {
            assertNotEquals(200, wait);
            System.gc();
            Thread.sleep(20);
          }
        }
        batcher.submit(batch(model, 1, i), model.newScores(1), null).get(1, TimeUnit.MINUTES);
      }
    }
  }
}
