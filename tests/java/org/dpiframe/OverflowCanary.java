package org.dpiframe;

import org.dpiframe.internal.DpiNative;

/** Has the library write behind native memory: under a sanitizer this program must be stopped. Prints "not seen" otherwise. */
public final class OverflowCanary {
  private static final int ROWS = 64;

  public static void main(String[] args) {
    Model model = Support.adult();
    Batch batch = model.batch().maxRows(ROWS).build();
    batch.item().rows(ROWS);
    Scores scores = model.newScores(ROWS);
    model.predict(batch, scores);  // writes the C struct
    long tooSmall = DpiNative.dpi_java_allocate(4);
    DpiNative.dpi_predict(model.guard().enter(), batch.call().extra(), tooSmall, ROWS, 0, batch.call().error());
    System.out.println("not seen");
  }
}
