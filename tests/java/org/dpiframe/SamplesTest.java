package org.dpiframe;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The sample programs. What the service does over HTTP is tested by tests/bindings/services, for both languages. */
class SamplesTest {
  /** What a sample prints of a bundle is what the program in C or C++ prints. */
  private static void printsTheSame(String program, String twin, Path bundle) throws Exception {
    String out = Support.run(List.of(Path.of(System.getProperty("java.home"), "bin/java").toString(),
        "-Ddpi.library.path=" + System.getProperty("dpi.test.lib"), "-cp", System.getProperty("java.class.path"), program,
        bundle.toString()));
    assertEquals(Support.run(List.of(Support.BIN.resolve(twin).toString(), bundle.toString())), out);
  }

  @Test
  void smallestProgram() throws Exception {
    printsTheSame("Score", "score_batch", Support.demo("adult_widedeep.h5"));
  }

  /** With features of the user, and without. */
  @Test
  void candidates() throws Exception {
    printsTheSame("ScoreCandidates", "score_candidates", Support.ROOT.resolve("tests/bundle/data/small.h5"));
    printsTheSame("ScoreCandidates", "score_candidates", Support.demo("bank_dcnv2.h5"));
  }
}
