package org.dpiframe;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/** Bundles, the C reference program, and rows made as that program makes them. */
final class Support {
  static final Path ROOT = Path.of(System.getProperty("dpi.test.root"));
  static final Path BIN = Path.of(System.getProperty("dpi.test.bin"));
  static final int SHARED_ROWS = 3;

  private Support() {}

  static Path demo(String name) {
    return ROOT.resolve("weights/demo").resolve(name);
  }

  static List<Path> bundles() {
    List<Path> all = new ArrayList<>();
    for (String folder : List.of("weights/demo", "tests/e2e/golden")) {
      try (Stream<Path> files = Files.list(ROOT.resolve(folder))) {
        files.filter(p -> p.toString().endsWith(".h5")).sorted().forEach(all::add);
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }
    all.add(ROOT.resolve("tests/e2e/op_bundles/embed.h5"));  // the one with weighted features
    return all;
  }

  static Model cpu(Path bundle) {
    return Model.builder().path(bundle).device(Device.CPU).load();
  }

  static Model adult() {
    return cpu(demo("adult_widedeep.h5"));
  }

  /**
   * Output of a program; fails on a non-zero status. A sanitizer's runtime that was preloaded into this machine is not handed on:
   * other programs need none.
   */
  static String run(List<String> command) throws Exception {
    ProcessBuilder builder = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT);
    builder.environment().remove("LD_PRELOAD");
    Process p = builder.start();
    String out = new String(p.getInputStream().readAllBytes());
    int status = p.waitFor();
    if (status != 0) throw new IllegalStateException(command + " ended with " + status);
    return out;
  }

  /** Runs a class of these tests in a fresh virtual machine with the main JAR and {@code jars}; {@code prefix} comes before java. */
  static String java(Class<?> main, List<String> prefix, List<Path> jars, String... properties) throws Exception {
    List<String> command = new ArrayList<>();
    String preloaded = System.getenv("LD_PRELOAD");  // the library under test needs it, unlike the programs of run()
    if (preloaded != null) command.addAll(List.of("env", "LD_PRELOAD=" + preloaded));
    command.addAll(prefix);
    command.addAll(List.of(Path.of(System.getProperty("java.home"), "bin/java").toString(), "-XX:TieredStopAtLevel=1",
        "-Xshare:auto", "-Ddpi.test.root=" + ROOT, "-Ddpi.test.bin=" + BIN));
    command.addAll(List.of(properties));
    StringBuilder path = new StringBuilder(System.getProperty("dpi.test.jar"));
    for (Path jar : jars) path.append(':').append(jar);
    path.append(':').append(main.getProtectionDomain().getCodeSource().getLocation().getPath());
    command.addAll(List.of("-cp", path.toString(), main.getName()));
    return run(command);
  }

  /** The bits of the C API's scores of the made-up rows. */
  static int[] reference(Path bundle, String mode, int rows) throws Exception {
    String hex = run(List.of(BIN.resolve("dpi_java_reference").toString(), bundle.toString(), mode, "" + rows)).trim();
    int[] bits = new int[hex.length() / 8];
    for (int i = 0; i < bits.length; i++) bits[i] = Integer.parseUnsignedInt(hex, 8 * i, 8 * i + 8, 16);
    return bits;
  }

  static int[] bits(Scores scores) {
    return bits(scores.toArray());
  }

  static int[] bits(float[] values) {
    int[] bits = new int[values.length];
    for (int i = 0; i < bits.length; i++) bits[i] = Float.floatToRawIntBits(values[i]);
    return bits;
  }

  /** tests/java/reference.c's generator. */
  static final class Draw {
    private long state = 42;

    long below(long n) {
      state = state * 6364136223846793005L + 1442695040888963407L;
      return (state >>> 33) % n;
    }
  }

  /** A part's arrays, row by row. */
  static final class Arrays {
    final float[] dense;
    final long[] ids;
    final long[] offsets;
    final float[] weights;
    final long[][][] bags;
    final float[][][] bagWeights;
    final float[][] denseRows;

    Arrays(Draw draw, Feature[] slots, int columns, int rows, boolean bagsMode) {
      denseRows = new float[rows][columns];
      bags = new long[rows][slots.length][];
      bagWeights = new float[rows][slots.length][];
      offsets = new long[rows * slots.length + 1];
      List<Long> allIds = new ArrayList<>();
      List<Float> allWeights = new ArrayList<>();
      for (int r = 0; r < rows; r++) {
        for (int c = 0; c < columns; c++) denseRows[r][c] = (draw.below(2001) - 1000) / 256.0f;
        for (int s = 0; s < slots.length; s++) {
          int length = bagsMode && slots[s].kind() == FeatureKind.SEQUENCE ? (int) draw.below(4) : 1;
          bags[r][s] = new long[length];
          bagWeights[r][s] = new float[length];
          for (int i = 0; i < length; i++) {
            bags[r][s][i] = draw.below(slots[s].vocabSize());
            bagWeights[r][s][i] = bagsMode && slots[s].weighted() ? (1 + draw.below(100)) / 64.0f : 1.0f;
            allIds.add(bags[r][s][i]);
            allWeights.add(bagWeights[r][s][i]);
          }
          offsets[r * slots.length + s + 1] = allIds.size();
        }
      }
      dense = new float[rows * columns];
      for (int r = 0; r < rows; r++) System.arraycopy(denseRows[r], 0, dense, r * columns, columns);
      ids = allIds.stream().mapToLong(Long::longValue).toArray();
      weights = new float[ids.length];
      for (int i = 0; i < weights.length; i++) weights[i] = allWeights.get(i);
    }
  }

  static Feature[] slots(Schema schema, boolean split, boolean shared) {
    int count = !split ? schema.slots() : shared ? schema.sharedSlots() : schema.itemSlots();
    Feature[] slots = new Feature[count];
    for (Feature f : schema.features()) {
      int slot = split ? f.partSlot() : f.slot();
      if (slot >= 0 && (!split || f.shared() == shared)) slots[slot] = f;
    }
    return slots;
  }

  static Arrays whole(Schema schema, int rows, boolean bags) {
    return new Arrays(new Draw(), slots(schema, false, false), schema.denseDim(), rows, bags);
  }
}
