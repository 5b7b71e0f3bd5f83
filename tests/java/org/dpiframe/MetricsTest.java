package org.dpiframe;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonParser;
import org.junit.jupiter.api.Test;

/** Counters and latencies for Prometheus, and calls that were slow. */
class MetricsTest {
  private static double sample(String text, String begin) {
    return text.lines().filter(line -> line.startsWith(begin)).findFirst()
        .map(line -> Double.parseDouble(line.substring(line.lastIndexOf(' ') + 1))).orElse(-1.0);
  }

  @Test
  void countCalls() {
    Environment environment = new Environment();
    try (Model model = Model.builder().path(Support.demo("adult_widedeep.h5")).device(Device.CPU).environment(environment).load()) {
      float[] dense = new float[3 * model.schema().denseDim()];
      for (int i = 0; i < 7; i++) model.predict(dense, new long[3 * model.schema().slots()]);
      String text = environment.metrics();
      assertEquals(7, sample(text, "dpi_call_seconds_count{model="), text);
      assertEquals(21, sample(text, "dpi_call_rows_sum{model="), text);
      assertEquals(7, sample(text, "dpi_calls_total{model="), text);
      String open = environment.metrics(true, false);
      assertTrue(open.endsWith("# EOF\n"), open);
      assertFalse(text.contains("# EOF"));
      assertTrue(environment.metrics(false, true).length() > text.length());
      environment.close();
      assertThrows(DpiException.Closed.class, environment::metrics);
    }
  }

  @Test
  void slowCallsAreKept() {
    try (Model quiet = Model.load(Support.demo("msweb_deepfm.h5").toString());
        Environment environment = new Environment();
        Endpoint endpoint = new Endpoint("slow", new Options().set("slow_us", "1"), environment);
        Model model = Model.builder().path(Support.demo("msweb_deepfm.h5")).option("slow_us", "1").load()) {
      long[] ids = new long[900 * 3];
      quiet.predict(null, ids);
      assertEquals("[]", quiet.slowJson());
      model.predict(null, ids);
      JsonArray calls = JsonParser.parseString(model.slowJson()).getAsJsonArray();
      assertEquals(1, calls.size());
      assertEquals(900, calls.get(0).getAsJsonObject().get("rows").getAsInt());
      assertEquals(900, calls.get(0).getAsJsonObject().getAsJsonObject("ids").get("area").getAsInt());
      endpoint.load(Support.demo("msweb_deepfm.h5").toString(), 5);
      Batch batch = endpoint.batch().maxRows(900).build();
      batch.item().rows(900);
      endpoint.predict(batch, endpoint.newScores(900));
      calls = JsonParser.parseString(endpoint.slowJson()).getAsJsonArray();
      assertEquals(5, calls.get(0).getAsJsonObject().get("version").getAsInt());
      model.close();
      assertThrows(DpiException.Closed.class, model::slowJson);
    }
  }
}
