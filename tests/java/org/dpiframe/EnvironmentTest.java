package org.dpiframe;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.lang.System.Logger.Level;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.ResourceBundle;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Environments: every kind of message arrives, versions, cancelled loads, and who keeps what. */
class EnvironmentTest {
  private static ModelBuilder adult(Environment environment) {
    return Model.builder().path(Support.demo("adult_widedeep.h5")).environment(environment);
  }

  /** Takes all messages; one of this level must hold every part. */
  private static void told(Environment environment, Level level, String... parts) {
    List<String> all = new ArrayList<>();
    boolean found = false;
    for (Environment.LogMessage m = environment.pollLog(); m != null; m = environment.pollLog()) {
      all.add(m.level() + " " + m.text());
      boolean matches = m.level() == level;
      for (String part : parts) matches &= m.text().contains(part);
      found |= matches;
    }
    assertTrue(found, "nobody told of " + List.of(parts) + "; there was: " + all);
  }

  @Test
  void aLoadTellsItsStages() {
    try (Environment env = new Environment().logLevel(Level.DEBUG)) {
      adult(env).device(Device.CPU).load().close();
      told(env, Level.DEBUG, "load: ", "adult_widedeep.h5", "stage tables took");
      adult(env).device(Device.CPU).load().close();
      told(env, Level.INFO, "load: ", "ready on cpu");
      assertNull(env.pollLog());
    }
  }

  @Test
  void fallbackAndRefusedPluginAreTold(@TempDir Path folder) throws Exception {
    Path file = Files.writeString(folder.resolve("libdpi_cuda.so"), "not a library");
    try (Environment env = new Environment().logLevel(Level.INFO)) {
      Device device;
      try (Model model = adult(env).option("backend_dir", folder.toString()).load()) {
        device = model.info().device();
      }
      told(env, Level.WARNING, "plugin: ", file.toString(), "is not used");
      adult(env).option("backend_dir", folder.toString()).load().close();
      if (device == Device.CPU) told(env, Level.INFO, "device: ", "runs on cpu");
    }
  }

  private static Path plugins() {
    Path plugins = Path.of(System.getProperty("dpi.test.lib")).resolve("dpi/backends-1");
    assumeTrue(Files.exists(plugins.resolve("libdpi_cuda_emu.so")), "the emulated GPU was not built");
    return plugins;
  }

  @Test
  void foreignTuningIsTold(@TempDir Path folder) throws Exception {
    Path plugins = plugins();
    Path table = Files.writeString(
        folder.resolve("tuning.txt"), "dpi-tuning 1\ndevice NVIDIA Other\ncapability 10\ncublaslt 0\n");
    try (Environment env = new Environment()) {
      Model.builder().path(Support.demo("bank_dcnv2.h5")).environment(env)
          .options(new Options().device("cuda_emu").set("tuning", table.toString()).set("backend_dir", plugins.toString()))
          .load().close();
      told(env, Level.WARNING, "tuning: ", "NVIDIA Other");
    }
  }

  /** Scores on an emulated GPU that cannot capture, as DPI_EMU_FAIL tells it. */
  public static final class NoGraphsChild {
    public static void main(String[] args) {
      try (Environment env = new Environment();
          Model model = adult(env).option("device", "cuda_emu").option("small_batch", "off").option("max_contexts", "1")
              .option("backend_dir", System.getProperty("dpi.test.plugins")).load()) {
        Support.Arrays a = Support.whole(model.schema(), 5, false);
        for (int i = 0; i < 3; i++) model.predict(a.dense, a.ids);
        System.out.println(env.pollLog());
        model.infoJson();
        System.out.println(env.pollLog());
      }
    }
  }

  @Test
  void graphsGivenUpAreTold() throws Exception {
    Path plugins = plugins();
    String out = Support.java(NoGraphsChild.class, List.of("env", "DPI_EMU_FAIL=capture:2:719"), List.of(),
        "-Ddpi.library.path=" + System.getProperty("dpi.test.lib"), "-Ddpi.test.plugins=" + plugins);
    assertTrue(out.startsWith("null\n"), out);  // a predict logs nothing
    assertTrue(out.contains("graphs: ") && out.contains("op by op"), out);
  }

  private static double longestWait(Model model) {
    Matcher field = Pattern.compile("\"longest_wait_ms\":([0-9.eE+-]+)").matcher(model.countersJson());
    assertTrue(field.find());
    return Double.parseDouble(field.group(1));
  }

  /** Three callers at once for the one context. */
  private static void contend(Model model, Support.Arrays a) throws InterruptedException {
    List<Thread> threads = new ArrayList<>();
    for (int i = 0; i < 3; i++) threads.add(new Thread(() -> model.predict(a.dense, a.ids)));
    for (Thread t : threads) t.start();
    for (Thread t : threads) t.join();
  }

  @Test
  void slowWaitsAreTold() throws Exception {
    try (Environment env = new Environment();
        Model model = adult(env).device(Device.CPU).option("max_contexts", "1").option("max_rows", "64").load()) {
      Support.Arrays a = Support.whole(model.schema(), 40_000, false);
      // Whether callers meet is the machine's to say: on one free core they may run one after the other. So until they do.
      long start = System.nanoTime();
      double longest;
      do {
        contend(model, a);
        assertNull(env.pollLog());
        longest = longestWait(model);
      } while (longest <= 0 && System.nanoTime() - start < TimeUnit.MINUTES.toNanos(2));
      assertTrue(longest > 0);
      told(env, Level.WARNING, "contexts: ", "waited for one of 1 contexts", "max_contexts");
    }
  }

  /** Keeps what it is told. */
  private static final class Recorder implements System.Logger {
    final ConcurrentLinkedQueue<String> texts = new ConcurrentLinkedQueue<>();

    @Override
    public String getName() {
      return "recorder";
    }

    @Override
    public boolean isLoggable(Level level) {
      return true;
    }

    @Override
    public void log(Level level, ResourceBundle bundle, String text, Throwable thrown) {
      texts.add(level + " " + text);
    }

    @Override
    public void log(Level level, ResourceBundle bundle, String format, Object... params) {
      texts.add(level + " " + format);
    }
  }

  @Test
  void theBridgeHandsOverWhatIsLeftWhenItIsClosed() throws Exception {
    Recorder recorder = new Recorder();
    try (Environment env = new Environment().logLevel(Level.INFO)) {
      assertThrows(IllegalArgumentException.class, () -> env.bridgeLog(recorder, Duration.ofNanos(999_999)));
      try (AutoCloseable bridge = env.bridgeLog(recorder, Duration.ofMinutes(1))) {
        adult(env).device(Device.CPU).load().close();
      }
    }
    assertEquals(1, recorder.texts.stream().filter(t -> t.startsWith("INFO load: ") && t.contains("ready on cpu")).count());
  }

  @Test
  void aModelKeepsItsEnvironment() {
    Environment env = new Environment().threads(2);
    assertThrows(DpiException.InvalidArgument.class, () -> env.threads(-1));
    assertThrows(DpiException.NotFound.class, () -> env.set("colour", "red"));
    try (Model model = adult(env).options(new Options().device(Device.CPU).threads(2)).load()) {
      Support.Arrays a = Support.whole(model.schema(), 1000, false);
      float[] before = model.predict(a.dense, a.ids);
      env.close();
      env.close();
      assertThrows(DpiException.Closed.class, () -> env.threads(1));
      assertThrows(DpiException.Closed.class, () -> adult(env).load());
      assertArrayEquals(before, model.predict(a.dense, a.ids));
    }
    Environment.process().close();
    adult(Environment.process()).device(Device.CPU).load().close();
  }

  @Test
  void versions() {
    try (Model model = Support.adult(); Rows rows = model.newRows()) {
      assertEquals(1, model.info().version());
      rows.begin().set("age", 37);
      Scores scores = model.newScores(1);
      assertEquals(0, scores.version());
      rows.predict(scores);
      assertEquals(1, scores.version());
      Scores none = model.newScores(0);
      assertThrows(DpiException.class, () -> rows.predict(none));
      assertEquals(0, none.version());
    }
  }

  @Test
  void aLoadIsCancelled() {
    Control control = new Control();
    adult(Environment.process()).device(Device.CPU).control(control).load().close();
    control.cancel();
    assertThrows(DpiException.Cancelled.class, () -> adult(Environment.process()).device(Device.CPU).control(control).load());
  }
}
