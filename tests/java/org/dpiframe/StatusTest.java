package org.dpiframe;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.dpiframe.internal.DpiNative;
import org.dpiframe.internal.DpiNativeConstants;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Every status reaches Java as its type with its fields. */
class StatusTest {
  private static ModelBuilder at(String path) {
    return Model.builder().path(path).device(Device.CPU);
  }

  /** All codes, also those that cannot be provoked here, through the error block that the library fills. */
  @ParameterizedTest
  @EnumSource(value = Status.class, mode = EnumSource.Mode.EXCLUDE, names = {"OK", "UNKNOWN"})
  void everyStatusHasItsType(Status status) {
    CallBlock call = new CallBlock();
    DpiException e = assertThrows(DpiException.class, () -> call.check(status.code()));
    assertSame(status, e.status());
    assertNotEquals(DpiException.class, e.getClass());
    String name = Native.textOf(DpiNative.dpi_status_name(status.code()));
    assertEquals("DPI_E_" + status.name(), name);
  }

  @Test
  void unknownCodesKeepTheirNumber() {
    DpiException e = assertThrows(DpiException.class, () -> new CallBlock().check(99));
    assertSame(Status.UNKNOWN, e.status());
    assertEquals(99, e.code());
  }

  @Test
  void invalidArgumentNamesRowAndFeature() {
    try (Model model = Support.adult(); Rows rows = model.newRows()) {
      Feature age = model.schema().feature("age");
      rows.begin();
      rows.begin();
      DpiException.InvalidArgument e =
          assertThrows(DpiException.InvalidArgument.class, () -> rows.set(age.index(), "not a number"));
      assertEquals(1, e.row());
      assertEquals(age.index(), e.feature());
      assertFalse(e.inShared());
      assertTrue(e.getMessage().contains("age"), e.getMessage());
    }
  }

  /** Whatever threads of a refused call had scored, nothing of it can be read. */
  @Test
  void refusedOnSeveralThreads() {
    int rows = 3000, bad = 1500;
    try (Model model = at(Support.demo("adult_widedeep.h5").toString()).option("threads", "4").option("max_rows", "64").load()) {
      float[] dense = new float[rows * model.schema().denseDim()];
      long[] ids = new long[rows * model.schema().slots()];
      Scores scores = model.newScores(rows);
      model.predict(model.batch().rows(rows).dense(dense).ids(ids).build(), scores);
      assertEquals(rows, scores.rows());
      dense[bad * model.schema().denseDim()] = Float.POSITIVE_INFINITY;
      Batch refused = model.batch().rows(rows).dense(dense).ids(ids).build();
      DpiException.InvalidArgument e = assertThrows(DpiException.InvalidArgument.class, () -> model.predict(refused, scores));
      assertEquals(bad, e.row());
      assertEquals(0, scores.rows());
      assertThrows(IndexOutOfBoundsException.class, () -> scores.get(bad + 1));
    }
  }

  @Test
  void notFound() {
    DpiException.NotFound e = assertThrows(DpiException.NotFound.class, () -> at("/no/such/bundle.h5").load());
    assertTrue(e.getMessage().contains("/no/such/bundle.h5"));
    assertThrows(DpiException.NotFound.class, () -> at("x").option("no_such_option", "1").load());
    try (Model model = Support.adult()) {
      assertThrows(DpiException.NotFound.class, () -> model.schema().feature("nope"));
    }
  }

  @Test
  void badModel() throws Exception {
    byte[] bytes = Files.readAllBytes(Support.demo("adult_widedeep.h5"));
    assertThrows(DpiException.BadModel.class, () -> Model.builder().bytes(new byte[] {1, 2, 3}).load());
    assertThrows(DpiException.BadModel.class, () -> Model.builder().bytes(Arrays.copyOf(bytes, bytes.length / 2)).load());
  }

  @Test
  void ioCarriesErrno() throws Exception {
    DpiException.Io e = assertThrows(DpiException.Io.class, () -> at("/tmp/" + "a".repeat(300)).load());
    assertEquals(36, e.nativeCode());  // ENAMETOOLONG
    Path folder = Files.createTempDirectory("dpi");
    try {
      assertThrows(DpiException.Io.class, () -> at(folder.toString()).load());
    } finally {
      Files.delete(folder);
    }
  }

  @Test
  void optionsAndDevices() {
    String bundle = Support.demo("adult_widedeep.h5").toString();
    assertThrows(DpiException.InvalidArgument.class, () -> at(bundle).option("threads", "many").load());
    assertThrows(DpiException.Unsupported.class, () -> at(bundle).option("precision", "tf32").load());
    assertThrows(DpiException.OutOfMemory.class, () -> at(bundle).option("memory_limit", "1000").load());
    if (Dpi.devicesJson().contains("\"cuda\",\"usable\":true")) return;
    assertThrows(DpiException.NoDevice.class, () -> Model.builder().path(bundle).device(Device.CUDA).load());
  }

  /** Scores on the emulated GPU until a call of its runtime fails, as DPI_EMU_FAIL tells it to. */
  public static final class FailingDeviceChild {
    public static void main(String[] args) {
      try (Model model = at(Support.demo("adult_widedeep.h5").toString()).option("device", "cuda_emu")
          .option("backend_dir", System.getProperty("dpi.test.plugins")).load()) {
        Support.Arrays a = Support.whole(model.schema(), 5, false);
        for (int i = 0; i < 1000; i++) model.predict(a.dense, a.ids);
        System.out.println("no failure");
      } catch (DpiException e) {
        System.out.println(e.getClass().getSimpleName() + " " + e.status() + " " + e.nativeCode() + " " + e.getMessage());
      }
    }
  }

  @Test
  void aDevicesErrorKeepsItsNumber() throws Exception {
    Path lib = Path.of(System.getProperty("dpi.test.lib"));
    Path plugins = lib.resolve("dpi/backends-1");
    assumeTrue(Files.exists(plugins.resolve("libdpi_cuda_emu.so")), "the emulated GPU was not built");
    String out = Support.java(FailingDeviceChild.class, List.of("env", "DPI_EMU_FAIL=sync:40:719"), List.of(),
        "-Ddpi.library.path=" + lib, "-Ddpi.test.plugins=" + plugins);
    assertTrue(out.startsWith("DeviceFailure DEVICE 719 "), out);
  }

  @Test
  void deadlineAndCancel() {
    try (Model model = Support.adult()) {
      Support.Arrays a = Support.whole(model.schema(), 3, false);
      Batch batch = model.batch().dense(a.dense).ids(a.ids).build();
      Scores scores = model.newScores(3);
      Control control = new Control();
      assertThrows(DpiException.Timeout.class, () -> model.predict(batch, scores, control.deadlineNanos(1)));
      assertEquals(0, scores.rows());
      assertThrows(IndexOutOfBoundsException.class, () -> scores.get(0));
      control.reset().cancel();
      assertThrows(DpiException.Cancelled.class, () -> model.predict(batch, scores, control));
      for (Duration passed : List.of(Duration.ZERO, Duration.ofSeconds(Long.MIN_VALUE)))
        assertThrows(DpiException.Timeout.class, () -> model.predict(batch, scores, control.reset().timeout(passed)));
      for (Duration ahead : List.of(Duration.ofSeconds(60), Duration.ofNanos(Long.MAX_VALUE), Duration.ofSeconds(Long.MAX_VALUE))) {
        model.predict(batch, scores, control.reset().timeout(ahead));
        assertEquals(3, scores.rows());
      }
    }
  }

  /** A deadline and a cancellation that come while the call runs: it stops between two chunks. */
  @Test
  void deadlineAndCancelWhileRunning() throws Exception {
    int rows = 20_000;
    try (Model model = Model.builder().path(Support.demo("adult_widedeep.h5")).device(Device.REF).option("max_rows", "8").load()) {
      Support.Arrays a = Support.whole(model.schema(), rows, false);
      Batch batch = model.batch().dense(a.dense).ids(a.ids).build();
      Scores scores = model.newScores(rows);
      Control control = new Control();
      for (int round = 0; round < 3; round++) {
        control.reset().timeout(Duration.ofMillis(1));
        assertThrows(DpiException.Timeout.class, () -> model.predict(batch, scores, control));
        control.reset();
        Thread canceller = new Thread(() -> {
          java.util.concurrent.locks.LockSupport.parkNanos(1_000_000);
          control.cancel();
        });
        canceller.start();
        assertThrows(DpiException.Cancelled.class, () -> model.predict(batch, scores, control));
        canceller.join();
        assertEquals(0, scores.rows());
      }
      String counters = model.countersJson();
      assertTrue(counters.contains("\"9\":3") && counters.contains("\"10\":3"), counters);
      model.predict(batch, scores, control.reset());
      assertEquals(rows, scores.rows());
    }
  }

  /** A bundle with one bit changed. */
  @Test
  void damagedBundles() throws Exception {
    byte[] bytes = Files.readAllBytes(Support.demo("adult_widedeep.h5"));
    bytes[bytes.length * 4 / 5] ^= 1;  // among the weights: golden rows are read by verify only
    DpiException e = assertThrows(DpiException.BadModel.class, () -> Model.builder().bytes(bytes).load());
    assertTrue(e.getMessage().length() > 20, e.getMessage());
  }

  @Test
  void capacitiesAreChecked() {
    try (Model model = Support.adult()) {
      Batch batch = model.batch().maxRows(2).build();
      long[] ids = new long[model.schema().slots()];
      float[] dense = new float[model.schema().denseDim()];
      assertThrows(IllegalArgumentException.class, () -> batch.addRow(dense, new long[1]));
      batch.addRow(dense, ids).addRow(dense, ids);
      assertThrows(IllegalArgumentException.class, () -> batch.addRow(dense, ids));
      assertThrows(DpiException.InvalidArgument.class, () -> model.predict(batch, model.newScores(1)));
      assertThrows(IllegalArgumentException.class, () -> model.predict(dense, new long[1]));
      batch.item().offsets().put(0, 5);
      batch.item().bags(0);
      assertThrows(DpiException.InvalidArgument.class, () -> model.predict(batch, model.newScores(2)));
      assertEquals(1, model.predict(batch.clear().addRow(dense, ids)).rows());
    }
  }

  @Test
  void versionsAreCompared() {
    int ours = DpiNativeConstants.DPI_VERSION_NUMBER;
    Native.checkVersion(ours, ours, "");
    Native.checkVersion(ours + 100, ours, "");
    DpiException e = assertThrows(DpiException.VersionMismatch.class,
        () -> Native.checkVersion(ours + 10000, ours, "{\"path\":\"/lib/libdpi.so.2\"}"));
    for (String part : new String[] {"1.2.0", "2.2.0", "/lib/libdpi.so.2"}) {
      assertTrue(e.getMessage().contains(part), e.getMessage());
    }
    assertThrows(DpiException.VersionMismatch.class, () -> Native.checkVersion(ours, ours + 100, ""));
  }

  /** The generated layer has every function of the header. */
  @Test
  void coversTheHeader() throws Exception {
    String header = Files.readString(Support.ROOT.resolve("capi/include/dpi/dpi.h")).replaceAll("(?s)/\\*.*?\\*/", "");
    TreeSet<String> wanted = new TreeSet<>();
    Matcher m = Pattern.compile("DPI_API[^;{]*?\\b(dpi_\\w+)\\s*\\(").matcher(header);
    while (m.find()) wanted.add(m.group(1));
    assertTrue(wanted.size() > 40, wanted.toString());
    TreeSet<String> have = Arrays.stream(DpiNative.class.getMethods()).map(x -> x.getName())
        .collect(Collectors.toCollection(TreeSet::new));
    wanted.removeAll(have);
    assertEquals(new TreeSet<String>(), wanted);
  }

  @Test
  void jsonRowsAreTyped() {
    try (Model model = Support.adult(); Rows rows = model.newRows()) {
      assertThrows(DpiException.NotFound.class, () -> rows.begin().setAll(Map.of("nope", 1)));
      assertThrows(DpiException.InvalidArgument.class, () -> rows.setAll(Map.of("age", List.of("x"))));
    }
  }
}
