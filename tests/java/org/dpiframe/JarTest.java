package org.dpiframe;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.zip.ZipFile;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The libraries inside the archives: what they need, what they keep to themselves, where the CUDA plugin goes. */
class JarTest {
  private static final String INSIDE = "dpi/native/linux-x86_64/";
  private static final String PLUGIN = "dpi/backends-1/libdpi_cuda.so";

  @TempDir Path temp;
  private Path library;

  /** Scores made-up rows, on the emulated GPU if a folder with its plugin is given, and prints the bits. */
  public static final class ScoreChild {
    public static void main(String[] args) {
      System.out.println(Arrays.toString(score(System.getProperty("dpi.test.plugins"))));
    }

    static int[] score(String plugins) {
      ModelBuilder builder = Model.builder().path(Support.demo("adult_widedeep.h5")).device(Device.CPU);
      if (plugins != null) builder.option("device", "cuda_emu").option("backend_dir", plugins);
      try (Model model = builder.load()) {
        Support.Arrays a = Support.whole(model.schema(), 5, false);
        return Support.bits(model.predict(a.dense, a.ids));
      }
    }
  }

  /** Prints what the library says of its backends. */
  public static final class DevicesChild {
    public static void main(String[] args) {
      System.out.println(Dpi.devicesJson());
    }
  }

  /** Prints what the library says of itself. */
  public static final class BuildInfoChild {
    public static void main(String[] args) {
      System.out.println(Dpi.buildInfoJson());
    }
  }

  @BeforeEach
  void extract() throws Exception {
    library = temp.resolve("libdpi.so.1");
    try (ZipFile jar = new ZipFile(System.getProperty("dpi.test.jar"));
        InputStream in = jar.getInputStream(jar.getEntry(INSIDE + "libdpi.so.1"))) {
      Files.copy(in, library);
      assertTrue(jar.getEntry("META-INF/maven/org.dpiframe/dpi/pom.xml") != null);
    }
  }

  private static Set<String> names(String text, String pattern) {
    return java.util.regex.Pattern.compile(pattern).matcher(text).results().map(m -> m.group(1))
        .collect(Collectors.toCollection(TreeSet::new));
  }

  @Test
  void theLibraryNeedsTheCLibraryOnly() throws Exception {
    Set<String> needed = names(Support.run(List.of("readelf", "-d", library.toString())), "NEEDED.*\\[(.*)\\]");
    needed.removeAll(Set.of("libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"));
    assertEquals(Set.of(), needed);
    Set<String> exported = names(Support.run(List.of("nm", "-D", "--defined-only", library.toString())),
        "[TtDdBbVvWwuiR] (\\w+)");
    assertTrue(exported.size() > 40, exported.toString());
    exported.removeIf(name -> name.startsWith("dpi_"));
    assertEquals(Set.of(), exported);
  }

  /** What the library says of itself, loaded from the archive as a user loads it. */
  @Test
  void theLibraryNamesItsBackendsAndLibraries() throws Exception {
    String info = Support.java(BuildInfoChild.class, List.of(), List.of(), "-Ddpi.native.extractDir=" + temp.resolve("cache"));
    assertTrue(info.contains("\"backends\":[\"ref\",\"cpu\"]"), info);
    Path table = Support.BIN.resolveSibling("packaging/notices/THIRD_PARTY.md");
    Set<String> named = names(Files.readString(table), "\\| (\\S+) \\| [0-9.]+ \\|.*`libdpi.so`");
    assertTrue(named.size() >= 5, named.toString());
    for (String name : named) {
      assertTrue(info.matches("(?s).*\"name\":\"" + java.util.regex.Pattern.quote(name)
          + "\",\"version\":\"[0-9.]+\",\"license\":\"[^\"]+\",\"linked\":\"static\".*"), name + " in " + info);
    }
  }

  /** Every function of xxHash and libsodium that is inside comes first here as well, and ends a process that calls it. */
  @Test
  void otherCopiesInTheProcessAreNotCalled() throws Exception {
    Path unstripped = Path.of(System.getProperty("dpi.test.lib"), "libdpi.so.1");
    Set<String> inside = names(Support.run(List.of("nm", unstripped.toString())), " [tT] ((?:XXH|sodium_|crypto_)\\w+)\n");
    assertTrue(inside.size() > 5 && inside.contains("XXH3_64bits_update"), inside.toString());
    Path source = temp.resolve("decoy.c");
    Path decoy = temp.resolve("decoy.so");
    Files.writeString(source, "#include <unistd.h>\n"
        + inside.stream().map(f -> "void " + f + "(void) { _exit(86); }\n").collect(Collectors.joining()));
    Support.run(List.of("cc", "-shared", "-fPIC", "-o", decoy.toString(), source.toString()));
    List<String> preloaded = List.of("env", "LD_PRELOAD=" + decoy);
    String out = Support.java(ScoreChild.class, preloaded, List.of(), "-Ddpi.native.extractDir=" + temp.resolve("cache"));
    assertEquals(Arrays.toString(ScoreChild.score(null)), out.trim());
    // A program that takes them from outside does call them.
    Path caller = Files.writeString(temp.resolve("caller.c"),
        "unsigned XXH_versionNumber(void);\nint main(void) { return XXH_versionNumber() == 0; }\n");
    Path program = temp.resolve("caller");
    Support.run(List.of("cc", "-o", program.toString(), caller.toString(), "-lxxhash"));
    Support.run(List.of(program.toString()));
    Files.writeString(source, "#include <unistd.h>\nvoid XXH_versionNumber(void) { _exit(86); }\n");
    Support.run(List.of("cc", "-shared", "-fPIC", "-o", decoy.toString(), source.toString()));
    IllegalStateException called =
        assertThrows(IllegalStateException.class, () -> Support.run(List.of("env", "LD_PRELOAD=" + decoy, program.toString())));
    assertTrue(called.getMessage().endsWith("ended with 86"), called.getMessage());
  }

  /** A plugin has a C++ library of its own, and so has the JAR's library: the two meet in C. */
  @Test
  void pluginsWorkWithTheInnerLibrary() throws Exception {
    Path plugins = Path.of(System.getProperty("dpi.test.lib"), "dpi/backends-1");
    assumeTrue(Files.exists(plugins.resolve("libdpi_cuda_emu.so")), "the emulated GPU was not built");
    String out = Support.java(ScoreChild.class, List.of(), List.of(), "-Ddpi.native.extractDir=" + temp.resolve("cache"),
        "-Ddpi.test.plugins=" + plugins);
    assertEquals(Arrays.toString(ScoreChild.score(plugins.toString())), out.trim());
  }

  /** A plugin that is none: extracted to where the library looks, and refused with a reason. */
  @Test
  void thePluginsJarIsFound() throws Exception {
    String cuda = devices(fakePluginJar());
    assertTrue(cuda.contains("does not export"), cuda);
    String without =
        Support.java(DevicesChild.class, List.of(), List.of(), "-Ddpi.native.extractDir=" + temp.resolve("other"));
    assertTrue(without.contains("libdpi_cuda.so: No such file"), without);
  }

  @Test
  void theArchivesWorkAsModules() throws Exception {
    Path cuda = fakePluginJar();
    Path base = temp.resolve("cache");
    String bundle = Support.demo("adult_widedeep.h5").toString();
    String classes = JarTest.class.getProtectionDomain().getCodeSource().getLocation().getPath();
    String out = Support.run(List.of(Path.of(System.getProperty("java.home"), "bin/java").toString(),
        "-Ddpi.native.extractDir=" + base, "-p", System.getProperty("dpi.test.jar") + ":" + cuda, "--add-modules", "org.dpiframe",
        "-cp", classes, "Score", bundle));
    assertEquals(Support.run(List.of(Support.BIN.resolve("score_batch").toString(), bundle)), out);
    assertTrue(Files.exists(extracted(base).resolve(PLUGIN)));
  }

  @Test
  void theRealPluginIsUsableOrSaysWhy() throws Exception {
    String jar = System.getProperty("dpi.test.cuda.jar", "");
    assumeTrue(!jar.isEmpty(), "the CUDA plugin was not built");
    String cuda = devices(Path.of(jar));
    assertTrue(cuda.contains("\"usable\":true") || cuda.contains("cannot be used on this machine: "), cuda);
  }

  private Path fakePluginJar() throws Exception {
    Path source = Files.writeString(temp.resolve("none.c"), "int nothing;\n");
    Path plugin = temp.resolve("libdpi_cuda.so");
    Support.run(List.of("cc", "-shared", "-fPIC", "-o", plugin.toString(), source.toString()));
    String script = Support.ROOT.resolve("packaging/jar/make_cuda_jar.sh").toString();
    Support.run(List.of(script, temp.toString(), "1.2.0", plugin.toString(),
        Support.BIN.resolveSibling("packaging").toString()));
    return temp.resolve("dpi-1.2.0-cuda13.jar");
  }

  private static Path extracted(Path base) throws Exception {
    try (var folders = Files.list(base)) {
      return folders.findFirst().orElseThrow();
    }
  }

  /** What the library says of the plugin that it found in the extracted folder. */
  private String devices(Path jar) throws Exception {
    Path base = temp.resolve("cache");
    String json = Support.java(DevicesChild.class, List.of(), List.of(jar), "-Ddpi.native.extractDir=" + base);
    Path plugin = extracted(base).resolve(PLUGIN);
    assertEquals("rwx------", PosixFilePermissions.toString(Files.getPosixFilePermissions(plugin.getParent())));
    byte[] bytes;
    try (ZipFile zip = new ZipFile(jar.toFile());
        InputStream in = zip.getInputStream(zip.getEntry(INSIDE + PLUGIN))) {
      bytes = in.readAllBytes();
    }
    assertArrayEquals(bytes, Files.readAllBytes(plugin));
    assertTrue(json.contains(plugin.toString()), json);
    return json;
  }
}
