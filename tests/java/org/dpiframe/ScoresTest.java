package org.dpiframe;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

/** Every way into the library gives the C API's scores, to the last bit. */
class ScoresTest {
  static List<Path> bundles() {
    return Support.bundles();
  }

  @ParameterizedTest
  @MethodSource("bundles")
  void singleIds(Path bundle) throws Exception {
    try (Model model = Support.cpu(bundle)) {
      for (int rows : new int[] {1, 33}) {
        Support.Arrays a = Support.whole(model.schema(), rows, false);
        int[] want = Support.reference(bundle, "single", rows);
        assertEquals(rows * model.schema().heads().size(), want.length);
        assertArrayEquals(want, Support.bits(model.predict(a.dense, a.ids)), "plain arrays");
        Batch built = model.batch().dense(a.dense).ids(a.ids).rows(rows).build();
        assertArrayEquals(want, Support.bits(model.predict(built)), "builder");
        Batch reused = model.batch().maxRows(40).build();
        Scores scores = model.newScores(40);
        for (int round = 0; round < 2; round++) {
          reused.clear();
          for (int r = 0; r < rows; r++) {
            int slots = model.schema().slots();
            reused.addRow(a.denseRows[r], Arrays.copyOfRange(a.ids, r * slots, (r + 1) * slots));
          }
          model.predict(reused, scores);
          assertArrayEquals(want, Support.bits(scores), "reused batch");
        }
        try (Context context = model.newContext(40, 0)) {
          context.predict(reused, scores);
          assertArrayEquals(want, Support.bits(scores), "context");
        }
      }
    }
  }

  @ParameterizedTest
  @MethodSource("bundles")
  void bags(Path bundle) throws Exception {
    try (Model model = Support.cpu(bundle)) {
      int rows = 31;
      Support.Arrays a = Support.whole(model.schema(), rows, true);
      int[] want = Support.reference(bundle, "bags", rows);
      Batch built = model.batch().rows(rows).dense(a.dense).ids(a.ids).offsets(a.offsets).weights(a.weights).build();
      Scores scores = model.newScores(rows, true);
      model.predict(built, scores);
      assertArrayEquals(want, Support.bits(scores), "builder");
      Batch reused = model.batch().maxRows(rows).maxIds(a.ids.length).withWeights().build();
      for (int r = 0; r < rows; r++) reused.addRow(a.denseRows[r], a.bags[r], a.bagWeights[r]);
      assertArrayEquals(want, Support.bits(model.predict(reused)), "rows of bags");
      slotMajor(model, a, rows, want);
    }
  }

  private static void slotMajor(Model model, Support.Arrays a, int rows, int[] want) {
    int slots = model.schema().slots();
    long[] ids = new long[a.ids.length];
    float[] weights = new float[a.ids.length];
    long[] offsets = new long[rows * slots + 1];
    int at = 0;
    for (int s = 0; s < slots; s++) {
      for (int r = 0; r < rows; r++) {
        for (int i = 0; i < a.bags[r][s].length; i++) {
          ids[at] = a.bags[r][s][i];
          weights[at++] = a.bagWeights[r][s][i];
        }
        offsets[s * rows + r + 1] = at;
      }
    }
    Batch batch =
        model.batch().rows(rows).slotMajor().dense(a.dense).ids(ids).offsets(offsets).weights(weights).build();
    assertArrayEquals(want, Support.bits(model.predict(batch)), "slot-major");
  }

  @ParameterizedTest
  @MethodSource("bundles")
  void sharedRows(Path bundle) throws Exception {
    try (Model model = Support.cpu(bundle)) {
      Schema schema = model.schema();
      if (!schema.hasShared()) return;
      int rows = 10;
      int[] want = Support.reference(bundle, "shared", rows);
      Support.Draw draw = new Support.Draw();
      Support.Arrays shared = new Support.Arrays(
          draw, Support.slots(schema, true, true), schema.sharedDenseDim(), Support.SHARED_ROWS, true);
      Support.Arrays item = new Support.Arrays(draw, Support.slots(schema, true, false), schema.itemDenseDim(), rows, true);
      long[] sharedOffsets = {0, 3, 6, 10};
      Batch built = model.batch().sharedOffsets(sharedOffsets).sharedDense(shared.dense).sharedIds(shared.ids)
          .sharedBagOffsets(shared.offsets).sharedWeights(shared.weights).dense(item.dense).ids(item.ids)
          .offsets(item.offsets).weights(item.weights).build();
      assertArrayEquals(want, Support.bits(model.predict(built)), "builder");
      if (schema.hasWeights()) return;
      Batch reused = model.batch().maxRows(rows).maxIds(item.ids.length).maxSharedRows(Support.SHARED_ROWS)
          .maxSharedIds(shared.ids.length).build();
      for (int s = 0; s < Support.SHARED_ROWS; s++) {
        reused.addSharedRow(shared.denseRows[s], shared.bags[s]);
        for (long r = sharedOffsets[s]; r < sharedOffsets[s + 1]; r++) {
          reused.addRow(item.denseRows[(int) r], item.bags[(int) r]);
        }
      }
      assertArrayEquals(want, Support.bits(model.predict(reused)), "row by row");
    }
  }

  /** The CSV's cells by name through the bundle's encoders, against the C sample's printed scores. */
  @ParameterizedTest
  @CsvSource({"adult_widedeep.h5,adult_test.csv", "bank_dcnv2.h5,bank_test.csv", "msweb_deepfm.h5,msweb_test.csv",
      "msweb_can.h5,msweb_test.csv"})
  void rawRows(String bundle, String csv) throws Exception {
    int rows = 200;
    List<String> lines = Files.readAllLines(Support.demo(csv)).subList(0, rows + 1);
    Path part = Files.createTempFile("dpi-rows", ".csv");
    Files.write(part, lines);
    String[] want = Support.run(List.of(Support.BIN.resolve("score_csv").toString(), Support.demo(bundle).toString(),
        part.toString())).split("\n");
    Files.delete(part);
    String[] names = lines.get(0).split(",");
    try (Model model = Support.cpu(Support.demo(bundle)); Rows raw = model.newRows()) {
      for (String line : lines.subList(1, rows + 1)) raw.begin().setAll(row(model.schema(), names, line));
      Scores scores = raw.predict();
      assertEquals(rows, want.length);
      assertEquals(rows, scores.rows());
      for (int r = 0; r < rows; r++) assertEquals(Float.parseFloat(want[r]), scores.get(r), 0.0f, "row " + r);
    }
  }

  private static Map<String, Object> row(Schema schema, String[] names, String line) {
    String[] cells = line.split(",", -1);
    Map<String, Object> row = new HashMap<>();
    for (int c = 0; c < names.length; c++) {
      if (!schema.has(names[c])) continue;
      boolean bag = schema.feature(names[c]).kind() == FeatureKind.SEQUENCE;
      row.put(names[c], bag ? List.of(cells[c].split("\\|")) : cells[c]);
    }
    return row;
  }

  @Test
  void bundleFromMemory() throws Exception {
    byte[] bytes = Files.readAllBytes(Support.demo("adult_widedeep.h5"));
    try (Model a = Support.adult(); Model b = Model.builder().bytes(bytes).option("device", "cpu").warmUpRows(8).load()) {
      Support.Arrays x = Support.whole(a.schema(), 7, false);
      assertArrayEquals(Support.bits(a.predict(x.dense, x.ids)), Support.bits(b.predict(x.dense, x.ids)));
      assertEquals(a.info().contentDigest(), b.info().contentDigest());
      assertEquals(Device.CPU, b.info().device());
    }
  }

  @Test
  void describesItself() {
    try (Model model = Support.adult()) {
      assertTrue(model.schema().has("age"));
      assertEquals(FeatureKind.CATEGORICAL, model.schema().feature("workclass").kind());
      assertFalse(model.schema().heads().isEmpty());
      assertTrue(model.schemaJson().contains("workclass"));
      assertTrue(model.infoJson().startsWith("{"));
      assertTrue(model.countersJson().startsWith("{"));
      assertTrue(Dpi.devicesJson().contains("cpu"));
      assertEquals(Dpi.bindingVersion(), Dpi.version());
      assertTrue(Dpi.buildInfoJson().contains("libdpi.so"));
    }
  }

  @Test
  void logitsComeBeforeTheActivation() {
    try (Model model = Support.adult()) {
      Support.Arrays a = Support.whole(model.schema(), 5, false);
      Scores scores = model.newScores(5, true);
      model.predict(model.batch().dense(a.dense).ids(a.ids).build(), scores);
      for (int r = 0; r < 5; r++) {
        double p = 1 / (1 + Math.exp(-(double) scores.logit(r, 0)));
        assertEquals(p, scores.get(r), 1e-6);
      }
      List<Float> seen = new ArrayList<>();
      for (int r = 0; r < 5; r++) seen.add(scores.buffer().get(r));
      assertEquals(scores.get(4), seen.get(4));
    }
  }

  /** Numbers as h5py reads them. */
  @Test
  void rowsOfATable() throws Exception {
    Path bundle = Support.bundles().stream().filter(p -> p.endsWith("msweb_deepfm.h5")).findFirst().orElseThrow();
    try (Model model = Support.cpu(bundle)) {
      float[] rows = model.tableLookup("area", new long[] {285, 3}, 16);
      assertEquals(32, rows.length);
      assertEquals(0.08303294330835342f, rows[16]);
      assertEquals(-0.1536211520433426f, rows[17]);
      assertEquals(0, model.tableLookup("area", new long[0], 16).length);
      DpiException refused = assertThrows(DpiException.class, () -> model.tableLookup("area", new long[] {0, 286}, 16));
      assertTrue(refused.getMessage().contains("key 1 is 286, table 'area' has rows 0 to 285"), refused.getMessage());
      assertEquals(1, refused.row());
      assertEquals(-1, refused.feature());
      assertThrows(DpiException.NotFound.class, () -> model.tableLookup("nowhere", new long[] {0}, 16));
      for (int dim : new int[] {0, -16, 8, 32}) {
        String text = assertThrows(IllegalArgumentException.class, () -> model.tableLookup("area", new long[] {0}, dim)).getMessage();
        assertEquals("table 'area' has rows of 16 floats, dim is " + dim, text);
      }
      assertEquals(16, model.tableDim("area"));
      assertThrows(DpiException.NotFound.class, () -> model.tableDim("nowhere"));
      assertThrows(IllegalArgumentException.class, () -> model.tableLookup("area", new long[16384], 65536));
      assertThrows(IllegalArgumentException.class, () -> model.tableLookup("a\0", new long[] {0}, 16));
      assertThrows(NullPointerException.class, () -> model.tableLookup(null, new long[] {0}, 16));
      assertThrows(NullPointerException.class, () -> model.tableLookup("area", null, 16));
    }
  }

  @Test
  void rowsOfATableUnderAControl() throws Exception {
    try (Model model = Support.cpu(Support.demo("msweb_deepfm.h5"))) {
      long[] keys = {285, 3};
      Control control = new Control().timeout(Duration.ofMinutes(1));
      assertArrayEquals(model.tableLookup("area", keys, 16), model.tableLookup("area", keys, 16, control));
      control.deadlineNanos(System.nanoTime() - 1);
      assertThrows(DpiException.Timeout.class, () -> model.tableLookup("area", keys, 16, control));
      control.reset().cancel();
      assertThrows(DpiException.Cancelled.class, () -> model.tableLookup("area", keys, 16, control));
      assertEquals(32, model.tableLookup("area", keys, 16, control.reset()).length);
    }
  }

  /** What is refused is refused before memory is taken for its rows, which would be more than a block may have here. */
  @Test
  void tablesAreRefusedBeforeMemoryIsTaken() throws Exception {
    try (Model model = Support.cpu(Support.demo("msweb_deepfm.h5"))) {
      assertThrows(DpiException.NotFound.class, () -> model.tableLookup("nowhere", new long[1 << 20], 1 << 16));
      assertThrows(IllegalArgumentException.class, () -> model.tableLookup("area", new long[1 << 20], 1 << 16));
    }
  }

  private static Model tiered(String miss) {
    return Model.builder().path(Support.demo("msweb_deepfm.h5")).device(Device.CPU).option("store.host_bytes", "12000")
        .option("store.resident_bytes", "0").option("table.area.miss", miss).option("table.area.default", "0.25").load();
  }

  /** Rows that are late under miss=default are the default row, and the counter says how many were. */
  @Test
  void lateRowsOfATable() throws Exception {
    int defaults = 0;
    try (Model model = tiered("default")) {
      for (int key = 0; key < 286; key++) {
        float[] row = model.tableLookup("area", new long[] {key}, 16);
        if (row[0] == 0.25f && row[15] == 0.25f) defaults++;
      }
      String area = model.countersJson().split("\"tiers\":")[1].split("\"name\":\"area\"")[1];
      assertEquals(defaults, Integer.parseInt(area.split("\"defaulted\":")[1].split(",")[0]));
      assertTrue(defaults > 0);
    }
    try (Model model = tiered("fail")) {
      assertEquals(1, assertThrows(DpiException.NotFound.class, () -> model.tableLookup("area", new long[] {1, 284}, 16)).row());
    }
  }
}
