package org.dpiframe;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import scoreservice.Metrics;

/** The sample programs. What the service does over HTTP is tested by tests/bindings/services, for both languages. */
class SamplesTest {
  @Test
  void smallestProgram() throws Exception {
    String bundle = Support.demo("adult_widedeep.h5").toString();
    String out = Support.run(List.of(Path.of(System.getProperty("java.home"), "bin/java").toString(),
        "-Ddpi.library.path=" + System.getProperty("dpi.test.lib"), "-cp", System.getProperty("java.class.path"), "Score", bundle));
    assertEquals(Support.run(List.of(Support.BIN.resolve("score_batch").toString(), bundle)), out);
  }

  /** Counters that this version of the library does not have are shown too. */
  @Test
  void anyCounterIsShown() throws Exception {
    Path folder = Support.ROOT.resolve("tests/bindings/services");
    Metrics.Page page = new Metrics.Page();
    page.counters(Files.readString(folder.resolve("counters.json")));
    assertEquals(Files.readString(folder.resolve("counters.txt")), page.text());
  }
}
