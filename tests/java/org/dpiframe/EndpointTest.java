package org.dpiframe;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Endpoints over the bundles of tests/capi/make_versions.py: bundle n scores 33 (n + 1) + (a + b) / 1024 for ids a and b. */
class EndpointTest {
  private static final int TAGS = 16;
  @TempDir static Path folder;

  @BeforeAll
  static void makeBundles() throws Exception {
    Support.run(List.of("/usr/bin/python3", "-B", Support.ROOT.resolve("tests/capi/make_versions.py").toString(), folder.toString()));
  }

  private static String bundle(String name) {
    return folder.resolve(name + ".h5").toString();
  }

  private static Endpoint endpoint(String name, Environment environment) {
    return new Endpoint(name, new Options().device(Device.CPU).maxContexts(2), environment);
  }

  private static int tag(float score, long a, long b) {
    return (int) Math.round((score - (a + b) / 1024.0) / 33) - 1;
  }

  private static Batch batch(Endpoint e, long id) {
    Batch batch = e.batch().maxRows(2).build();
    batch.item().rows(2).ids(new long[] {id, 1, id, 2});
    return batch;
  }

  /** Which bundle computed all scores, -1 = none did or several. */
  private static int tag(Scores scores, long id) {
    int first = tag(scores.get(0, 0), id, 1);
    return first == tag(scores.get(1, 0), id, 2) ? first : -1;
  }

  /** A time beyond the clock's end is no time that has passed. */
  @Test
  void awaitsForEver() throws Exception {
    try (Environment environment = new Environment(); Endpoint e = endpoint("forever", environment)) {
      assertThrows(DpiException.Timeout.class, () -> e.await(1, Duration.ZERO));
      Thread loads = new Thread(() -> e.load(bundle("3")));
      loads.start();
      e.await(1, Duration.ofSeconds(Long.MAX_VALUE));
      assertEquals(1, e.version());
      loads.join();
    }
  }

  @Test
  void loadsRefusesAndRollsBack() {
    try (Environment environment = new Environment(); Endpoint e = endpoint("java", environment)) {
      assertThrows(DpiException.NotFound.class, e::batch);
      assertThrows(DpiException.NotFound.class, e::acquire);
      assertEquals(0, e.version());
      e.load(bundle("3"));
      e.load(bundle("4"), 40);
      Batch batch = batch(e, 5);
      Scores scores = e.newScores(2);
      e.predict(batch, scores);
      assertEquals(4, tag(scores, 5));
      assertEquals(40, scores.version());
      DpiException refused = assertThrows(DpiException.class, () -> e.load(bundle("renamed")));
      assertEquals(Status.UNSUPPORTED, refused.status());
      assertTrue(refused.getMessage().contains("feature 1 is 'c', was 'b'"), refused.getMessage());
      assertThrows(DpiException.class, () -> e.load(bundle("truncated")));
      String status = e.statusJson();
      assertTrue(status.startsWith("{\"name\":\"java\",\"version\":40,") && status.contains("\"loads\":2,\"failed_loads\":2"), status);
      assertTrue(status.contains("\"failures\":{\"4\":1,\"5\":1}"), status);
      List<String> names = Stream.of(4, 5, 0).map(code -> Status.of(code).cName()).toList();
      assertEquals(List.of("DPI_E_BAD_MODEL", "DPI_E_UNSUPPORTED", "DPI_OK"), names);
      try (Model held = e.acquire()) {
        e.rollback();
        e.predict(batch, scores);
        assertEquals(3, tag(scores, 5));
        assertEquals(1, e.version());
        held.predict(batch, scores);
        assertEquals(4, tag(scores, 5));
        assertEquals(40, held.info().version());
      }
      assertThrows(DpiException.NotFound.class, e::rollback);
      assertThrows(DpiException.NotFound.class, () -> e.set("keep", "1"));
      assertThrows(DpiException.InvalidArgument.class, () -> e.set("golden", "perhaps"));
      assertThrows(DpiException.InvalidArgument.class, () -> endpoint("java", environment));
    }
  }

  @Test
  void sixteenThreadsDuringSwaps() throws Exception {
    ConcurrentLinkedQueue<String> wrong = new ConcurrentLinkedQueue<>();
    AtomicLong asked = new AtomicLong();
    boolean[] stop = new boolean[1];
    try (Environment environment = new Environment(); Endpoint e = endpoint("swaps", environment)) {
      e.set("keep_seconds", "0").set("warm_up_rows", "1");
      e.load(bundle("1"), 1);
      List<Thread> callers = new ArrayList<>();
      for (int i = 0; i < 16; i++) {
        long id = i;
        callers.add(new Thread(() -> {
          Batch batch = batch(e, id);
          Scores scores = e.newScores(2);
          long last = 0;
          while (wrong.isEmpty()) {
            synchronized (stop) {
              if (stop[0]) return;
            }
            try {
              e.predict(batch, scores);
              Thread.sleep(0, 50_000);
            } catch (Exception fault) {
              wrong.add(fault.toString());
            }
            if (scores.version() < last || tag(scores, id) != scores.version() % TAGS)
              wrong.add("version " + scores.version() + " after " + last + ", bundle " + tag(scores, id));
            last = scores.version();
            asked.incrementAndGet();
          }
        }));
      }
      callers.forEach(Thread::start);
      for (int n = 2; n < 200; n++) e.load(bundle("" + n % TAGS), n);
      synchronized (stop) {
        stop[0] = true;
      }
      for (Thread t : callers) t.join();
    }
    assertEquals(List.of(), List.copyOf(wrong));
    assertTrue(asked.get() > 100, "" + asked);
  }

  @Test
  void followsAFolder(@TempDir Path followed) throws Exception {
    try (Environment environment = new Environment(); Endpoint e = endpoint("follows", environment)) {
      e.set("follow_ms", "5").follow(followed.toString());
      assertThrows(DpiException.Timeout.class, () -> e.await(1, Duration.ofMillis(50)));
      int n = 0;
      for (String name : List.of("1", "truncated", "5")) {
        Path part = Files.copy(Path.of(bundle(name)), followed.resolve("part"));
        Files.move(part, followed.resolve("v000" + ++n + ".h5"), StandardCopyOption.ATOMIC_MOVE);
        if (!name.equals("truncated")) e.await(n, Duration.ofSeconds(30));
      }
      assertEquals(3, e.version());
      assertTrue(e.statusJson().contains("\"follows\":{\"folder\":"), e.statusJson());
      e.unfollow();
    }
  }

  @Test
  void subscribes(@TempDir Path folder) {
    try (Environment environment = new Environment(); Endpoint e = endpoint("subscribes", environment)) {
      String name = folder.toString();
      assertThrows(DpiException.InvalidArgument.class, () -> e.subscribe("kafka://127.0.0.1:1", name));
      assertThrows(DpiException.NotFound.class, () -> e.subscribe("no_such_stream://127.0.0.1:1/deltas", name));
      try {
        e.subscribe("kafka://127.0.0.1:1/deltas?group=java", name);
      } catch (DpiException.NotFound notBuilt) {
        assumeTrue(false, notBuilt.getMessage());
      }
      assertTrue(e.statusJson().contains("\"stream\":{\"source\":\"kafka://127.0.0.1:1/deltas/0\",\"group\":\"java\","), e.statusJson());
      e.unsubscribe();
      assertFalse(e.statusJson().contains("\"stream\""), e.statusJson());
    }
  }

  @Test
  void closeTwiceAndUseAfterClose() {
    try (Environment environment = new Environment()) {
      Endpoint e = endpoint("closes", environment);
      e.load(bundle("0"));
      Batch batch = batch(e, 1);
      Scores scores = e.newScores(2);
      e.close();
      e.close();
      assertTrue(e.isClosed());
      assertThrows(DpiException.Closed.class, () -> e.predict(batch, scores));
      assertThrows(DpiException.Closed.class, () -> e.load(bundle("1")));
      assertThrows(DpiException.Closed.class, e::rollback);
      assertThrows(DpiException.Closed.class, e::acquire);
      assertThrows(DpiException.Closed.class, e::statusJson);
      assertThrows(DpiException.Closed.class, e::version);
      assertThrows(DpiException.Closed.class, e::unfollow);
      assertThrows(DpiException.Closed.class, () -> e.await(1, Duration.ofMillis(1)));
      assertThrows(DpiException.Closed.class, () -> e.follow("x"));
      assertThrows(DpiException.Closed.class, () -> e.subscribe("kafka://a:1/t", "x"));
      assertThrows(DpiException.Closed.class, e::unsubscribe);
      assertThrows(DpiException.Closed.class, () -> e.set("golden", "on"));
    }
  }
}
