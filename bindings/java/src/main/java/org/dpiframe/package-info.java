/**
 * Click-through-rate models scored inside a Java service, over the C library {@code libdpi.so.1}.
 *
 * <pre>{@code
 * try (Model model = Model.builder().path("ctr.h5").warmUpRows(512).load()) {
 *   Batch batch = model.batch().maxRows(512).build();   // one per thread, reused
 *   Scores scores = model.newScores(512);
 *   batch.clear().addRow(dense, ids);
 *   model.predict(batch, scores);                       // no copy, no garbage
 *   float click = scores.get(0);
 * }
 * }</pre>
 *
 * <p>Threads: {@link org.dpiframe.Model}, {@link org.dpiframe.Schema}, {@link org.dpiframe.Options} after loading and
 * {@link org.dpiframe.Dpi} may be used by any number of threads at once. {@link org.dpiframe.Batch}, {@link
 * org.dpiframe.Scores}, {@link org.dpiframe.Rows} and {@link org.dpiframe.Context} belong to one thread at a time.
 *
 * <p>Errors: what the library refuses is a {@link org.dpiframe.DpiException} of the status's own type; a buffer that is
 * too small on the Java side is an {@link java.lang.IllegalArgumentException} or {@link
 * java.lang.IndexOutOfBoundsException}.
 */
package org.dpiframe;
