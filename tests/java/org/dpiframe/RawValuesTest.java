package org.dpiframe;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.gson.ToNumberPolicy;
import com.google.gson.reflect.TypeToken;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

/** The table of raw values, tests/e2e/raw_values, through {@link Rows#setAll}: each case in every Java type that can hold it. */
class RawValuesTest {
  private static final Path DATA = Support.ROOT.resolve("tests/e2e/raw_values/data");
  /** As a service reads JSON: numbers keep their text. */
  private static final Gson KEEPS_TEXT =
      new GsonBuilder().setObjectToNumberStrategy(ToNumberPolicy.LAZILY_PARSED_NUMBER).create();

  private static Object lazily(String number) {
    return KEEPS_TEXT.fromJson("[" + number + "]", new TypeToken<List<Object>>() {}).get(0);
  }

  /** The Java values that a case's value stands for. */
  private static List<Object> forms(JsonObject value) {
    Map.Entry<String, JsonElement> entry = value.entrySet().iterator().next();
    List<Object> forms = new ArrayList<>();
    switch (entry.getKey()) {
      case "null":
        forms.add(null);
        break;
      case "bool":
        forms.add(entry.getValue().getAsBoolean());
        break;
      case "list":
        listForms(entry.getValue().getAsJsonArray(), forms);
        break;
      case "text":
        String text = entry.getValue().getAsString();
        forms.addAll(List.of(text, new StringBuilder(text)));
        if (text.length() == 1) forms.add(text.charAt(0));
        break;
      case "json":
        String digits = entry.getValue().getAsString();
        forms.add(lazily(digits));
        if (new BigDecimal(digits).toString().equals(digits)) forms.add(new BigDecimal(digits));
        break;
      case "double":
        double x = Double.parseDouble(entry.getValue().getAsString());
        forms.add(x);
        if (Double.compare((float) x, x) == 0) forms.add((float) x);
        break;
      default:
        integerForms(new BigInteger(entry.getValue().getAsString()), forms);
    }
    return forms;
  }

  private static void integerForms(BigInteger value, List<Object> forms) {
    forms.add(value);
    if (value.bitLength() < 64) forms.addAll(List.of(value.longValue(), new AtomicLong(value.longValue())));
    if (value.bitLength() < 32) forms.add(value.intValue());
    if (value.bitLength() < 16) forms.add(value.shortValue());
    if (value.bitLength() < 8) forms.add(value.byteValue());
  }

  private static void listForms(JsonArray array, List<Object> forms) {
    List<Object> list = new ArrayList<>();
    for (JsonElement element : array) {
      List<Object> of = forms(element.getAsJsonObject());
      list.add(of.get(of.size() > 1 ? 1 : 0));
    }
    forms.addAll(List.of(list, list.toArray()));
    if (!list.isEmpty() && list.stream().allMatch(v -> v instanceof Long)) {
      forms.add(list.stream().mapToLong(v -> (Long) v).toArray());
    }
  }

  private static Map<String, Long> counters(Model model, int feature) {
    JsonObject f = JsonParser.parseString(model.countersJson()).getAsJsonObject().getAsJsonArray("features").get(feature)
        .getAsJsonObject();
    Map<String, Long> counters = new HashMap<>();
    f.entrySet().stream().filter(e -> !e.getKey().equals("name")).forEach(e -> counters.put(e.getKey(), e.getValue().getAsLong()));
    assertEquals(6, counters.size());
    return counters;
  }

  private static void check(Model model, Rows rows, JsonObject c, Object value) {
    Feature feature = model.schema().feature(c.get("feature").getAsString());
    String what = c + " as " + (value == null ? null : value.getClass() + " " + value);
    Map<String, Long> want = counters(model, feature.index());
    c.getAsJsonObject("counts").entrySet().forEach(e -> want.merge(e.getKey(), e.getValue().getAsLong(), Long::sum));
    Map<String, Object> row = new HashMap<>();
    row.put(feature.name(), value);
    rows.clear().begin();
    if (c.has("score")) {
      Scores scores = rows.setAll(row).predict();
      float score = c.get("score").getAsFloat();
      assertEquals(score, scores.get(0, model.schema().heads().indexOf(feature.name())), 1.2e-7f * Math.abs(score), what);
    } else {
      DpiException.InvalidArgument e =
          assertThrows(DpiException.InvalidArgument.class, () -> rows.setAll(row).predict(), what);
      assertEquals(0, e.row(), what);
      assertEquals(feature.index(), e.feature(), what);
      c.getAsJsonArray("error").forEach(text -> assertTrue(e.getMessage().contains(text.getAsString()), what + ": " + e));
    }
    assertEquals(want, counters(model, feature.index()), what);
  }

  @Test
  void theTable() throws Exception {
    JsonArray cases = JsonParser.parseString(Files.readString(DATA.resolve("cases.json"))).getAsJsonArray();
    assertTrue(cases.size() > 500);
    int runs = 0;
    try (Model model = Support.cpu(DATA.resolve("raw_values.h5")); Rows rows = model.newRows()) {
      for (JsonElement c : cases) {
        for (Object form : forms(c.getAsJsonObject().getAsJsonObject("value"))) {
          check(model, rows, c.getAsJsonObject(), form);
          runs++;
        }
      }
    }
    assertTrue(runs > 2 * cases.size(), runs + " runs");
  }

  private static float score(Model model, Rows rows, String feature) {
    Scores scores = rows.predict();
    rows.clear().begin();
    return scores.get(0, model.schema().heads().indexOf(feature));
  }

  /** The typed setters, by the literal that a programmer writes. */
  @Test
  void integersAndCharactersByTheirOwnSetters() {
    try (Model model = Support.cpu(DATA.resolve("raw_values.h5")); Rows rows = model.newRows()) {
      rows.begin().set("user", 9007199254740993L);
      assertEquals(7, score(model, rows, "user"));
      rows.set("user", Long.MIN_VALUE);
      assertEquals(10, score(model, rows, "user"));
      rows.set("user", Long.MAX_VALUE);
      assertEquals(9, score(model, rows, "user"));
      rows.set("age", 50);
      assertEquals(1, score(model, rows, "age"));
      rows.set("word", 'A');
      assertEquals(5, score(model, rows, "word"));
      rows.set("history", 7).set("history", 26L).addIntegers("history", new long[] {9007199254740993L}, null);
      assertEquals(2 + 16 * 1 + 256 * 7, score(model, rows, "history"));
      assertThrows(DpiException.InvalidArgument.class, () -> rows.set("user", 9007199254740993.0));
      assertThrows(DpiException.InvalidArgument.class, () -> rows.addIntegers("age", new long[] {26}, null));
      assertThrows(IllegalArgumentException.class, () -> rows.addIntegers("history", new long[] {26}, new float[2]));
    }
  }

  @Test
  void weightsOfRawIntegers() {
    try (Model model = Support.cpu(DATA.resolve("more_kinds.h5")); Rows rows = model.newRows()) {
      rows.begin().addIntegers("tags", new long[] {9007199254740993L, 26}, new float[] {0.5f, 2});
      assertEquals(0.5f * 3 + 2 * 1, score(model, rows, "tags"));
      assertThrows(DpiException.InvalidArgument.class, () -> rows.addIntegers("tags", new long[] {26, 9007199254740992L}, null));
      assertEquals(0, score(model, rows, "tags"));
    }
  }

  /** No depth of lists overflows the stack, not even a list that holds itself. */
  @Test
  void nestingIsRefusedByName() {
    try (Model model = Support.cpu(DATA.resolve("raw_values.h5")); Rows rows = model.newRows()) {
      List<Object> deep = new ArrayList<>();
      for (int i = 0; i < 1_000_000; i++) deep = new ArrayList<>(Arrays.asList((Object) deep));
      List<Object> self = new ArrayList<>();
      self.add(self);
      Object[] array = new Object[1];
      array[0] = array;
      rows.begin();
      for (String feature : List.of("history", "vector", "age", "user")) {
        for (Object nested : List.of(deep, self, array)) {
          DpiException.InvalidArgument e = assertThrows(
              DpiException.InvalidArgument.class, () -> rows.setAll(Map.of(feature, nested)), feature);
          assertTrue(e.getMessage().startsWith("row 0, feature '" + feature + "': "), e.getMessage());
          assertEquals(model.schema().feature(feature).index(), e.feature());
        }
      }
    }
  }

  @Test
  void whatNoJsonReaderGivesIsRefused() {
    try (Model model = Support.cpu(DATA.resolve("raw_values.h5")); Rows rows = model.newRows()) {
      rows.begin();
      for (Object odd : List.of(Map.of("a", 1), TimeUnit.DAYS, Optional.of(26), new byte[] {26}, new char[] {'A'}, new Object())) {
        for (String feature : List.of("user", "word", "age", "history", "vector")) {
          DpiException.InvalidArgument e =
              assertThrows(DpiException.InvalidArgument.class, () -> rows.setAll(Map.of(feature, odd)), feature + odd);
          assertTrue(e.getMessage().contains(odd.getClass().getName()), e.getMessage());
        }
      }
      assertThrows(DpiException.NotFound.class, () -> rows.setAll(Map.of("nobody", 1)));
    }
  }

  /** A vector with an encoder takes encoded floats only, and by their own call; a shared row is named as one. */
  @Test
  void vectorsWithEncodersAndSharedRows() {
    try (Model model = Support.cpu(DATA.resolve("more_kinds.h5")); Rows rows = model.newRows()) {
      rows.beginShared().begin();
      DpiException.InvalidArgument e =
          assertThrows(DpiException.InvalidArgument.class, () -> rows.setAll(Map.of("scaled", List.of(1, 2))));
      assertTrue(e.getMessage().contains("encoder"), e.getMessage());
      e = assertThrows(DpiException.InvalidArgument.class, () -> rows.setAll(Map.of("user", Map.of())));
      assertTrue(e.inShared() && e.row() == 0 && e.getMessage().startsWith("shared row 0, feature 'user'"), e.getMessage());
      e = assertThrows(DpiException.InvalidArgument.class, () -> rows.setAll(Map.of("user", List.of(26))));
      assertTrue(e.inShared() && e.row() == 0 && e.getMessage().startsWith("shared row 0, feature 'user'"), e.getMessage());
      rows.setFloats("scaled", new float[] {1, 2});
      assertEquals(3, rows.predict().get(0, model.schema().heads().indexOf("scaled")));
    }
  }
}
