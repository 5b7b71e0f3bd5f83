package org.dpiframe;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.lang.ref.WeakReference;
import java.lang.reflect.InvocationTargetException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Where the native library comes from; each case in a fresh virtual machine that has the main JAR only. */
class LoaderTest {
  @TempDir Path temp;

  /** Prints the build info, or the failure. */
  public static final class Child {
    public static void main(String[] args) {
      try {
        System.out.println("loaded " + Dpi.buildInfoJson());
      } catch (DpiException e) {
        System.out.println(e.status() + " " + e.getMessage());
        try {
          Dpi.version();
        } catch (DpiException again) {
          System.out.println("again " + again.status());
        }
      }
    }
  }

  private static String child(String... properties) throws Exception {
    return Support.java(Child.class, List.of(), List.of(), properties);
  }

  private static String mode(Path p) throws Exception {
    return PosixFilePermissions.toString(Files.getPosixFilePermissions(p));
  }

  @Test
  void extractsIntoAPrivateFolder() throws Exception {
    Path base = temp.resolve("cache");
    for (int round = 0; round < 2; round++) {
      String out = child("-Ddpi.native.extractDir=" + base);
      assertTrue(out.startsWith("loaded ") && out.contains(base.toString()), out);
      assertEquals("rwx------", mode(base));
      try (Stream<Path> folders = Files.list(base)) {
        Path folder = folders.reduce((a, b) -> { throw new IllegalStateException("two folders"); }).orElseThrow();
        assertTrue(folder.getFileName().toString().matches("1\\.2\\.0-[0-9a-f]{32}"), folder.toString());
        assertEquals("rwx------", mode(folder));
        try (Stream<Path> files = Files.list(folder)) {
          assertEquals(2, files.count());
        }
        // A damaged copy is replaced.
        Path lib = folder.resolve("libdpi.so.1");
        Files.setPosixFilePermissions(lib, PosixFilePermissions.fromString("rwx------"));
        Files.writeString(lib, "damaged");
      }
    }
  }

  @Test
  void refusesAFolderThatOthersMayWrite() throws Exception {
    Path base = Files.createDirectory(temp.resolve("open"));
    Files.setPosixFilePermissions(base, PosixFilePermissions.fromString("rwxrwxrwx"));
    String out = child("-Ddpi.native.extractDir=" + base);
    assertTrue(out.startsWith("NOT_FOUND ") && out.contains("may be written by others"), out);
    assertTrue(out.contains("again NOT_FOUND"), out);
  }

  @Test
  void saysWhyAFolderCannotBeUsed() throws Exception {
    String out = child("-Ddpi.native.extractDir=/proc/dpi");
    assertTrue(out.startsWith("NOT_FOUND ") && out.contains("extracting to /proc/dpi"), out);
    assertTrue(out.contains("system: no libdpi_jni.so"), out);
  }

  /** A processor is looked for by its own name, and one that the JAR has nothing for is named. */
  @Test
  void takesTheLibraryOfItsProcessor() throws Exception {
    assertEquals("x86_64", Loader.machine("amd64"));
    assertEquals("aarch64", Loader.machine("aarch64"));
    String out = child("-Dos.arch=riscv64", "-Ddpi.native.extractDir=" + temp.resolve("other"));
    assertTrue(out.startsWith("NOT_FOUND ") && out.contains("JAR: no entry dpi/native/linux-riscv64/libdpi.so.1"), out);
    assertTrue(out.contains("The JAR holds libraries for Linux on ") && out.contains("; this is Linux on riscv64"), out);
    assertFalse(Files.exists(temp.resolve("other")), out);
  }

  @Test
  void anExplicitPathIsTheOnlyOne() throws Exception {
    Path lib = Path.of(System.getProperty("dpi.test.lib"));
    String folder = child("-Ddpi.library.path=" + lib);
    assertTrue(folder.startsWith("loaded ") && folder.contains(lib.toString()), folder);
    String file = child("-Ddpi.library.path=" + lib.resolve("libdpi.so.1"));
    assertTrue(file.startsWith("loaded ") && file.contains(lib.toString()), file);
    String missing = child("-Ddpi.library.path=" + temp.resolve("none.so"));
    assertTrue(missing.startsWith("NOT_FOUND ") && missing.contains("none.so"), missing);
    assertFalse(missing.contains("extract"), missing);
  }

  @Test
  void theSystemsLibraryComesBeforeTheJars() throws Exception {
    String lib = System.getProperty("dpi.test.lib");
    String out = child("-Djava.library.path=" + lib);
    assertTrue(out.startsWith("loaded ") && out.contains(lib), out);
  }

  /** On real mounts, in a name space of their own. */
  @Test
  void saysWhyAMountCannotBeUsed() throws Exception {
    Path base = Files.createDirectory(temp.resolve("mount"));
    for (String[] c : new String[][] {{"noexec", "noexec"}, {"ro", "Read-only file system (set -Ddpi.native."}}) {
      String mount = "mount -t tmpfs -o " + c[0] + ",mode=700 none '" + base + "' && exec \"$@\"";
      List<String> mounted = List.of("unshare", "-rm", "sh", "-c", mount, "sh");
      int status = new ProcessBuilder(with(mounted, "true")).start().waitFor();
      assumeTrue(status == 0, "this machine lets nobody mount");
      String out = Support.java(Child.class, mounted, List.of(), "-Ddpi.native.extractDir=" + base);
      assertTrue(out.startsWith("NOT_FOUND ") && out.contains(base.toString()) && out.contains(c[1]), out);
      List<String> cache = with(mounted, "env", "XDG_CACHE_HOME=" + base);
      String next = Support.java(Child.class, cache, List.of(), "-Djava.io.tmpdir=" + temp);
      assertTrue(next.startsWith("loaded ") && next.contains(temp.resolve("dpi-").toString()), next);
    }
  }

  /** Uses the archive by a loader below the one that has it, then by one beside it. */
  public static final class TwoLoaders {
    public static void main(String[] args) throws Exception {
      URL[] jar = {Path.of(System.getProperty("two.jar")).toUri().toURL()};
      Dpi.version();
      for (ClassLoader parent : List.of(TwoLoaders.class.getClassLoader(), ClassLoader.getPlatformClassLoader())) {
        try {
          Class<?> dpi = new URLClassLoader(jar, parent).loadClass("org.dpiframe.Dpi");
          System.out.println("loaded " + !dpi.getMethod("version").invoke(null).toString().isEmpty());
        } catch (InvocationTargetException e) {
          System.out.println(e.getCause().getMessage());
        }
      }
    }
  }

  /** Loaders below the one that has the archive share its library; one beside it fails and says what to do. */
  @Test
  void classLoadersShareTheLibraryOfTheirParent() throws Exception {
    String out = Support.java(TwoLoaders.class, List.of(), List.of(), "-Ddpi.native.extractDir=" + temp.resolve("loaders"),
        "-Dtwo.jar=" + System.getProperty("dpi.test.jar"));
    assertTrue(out.startsWith("loaded true\n"), out);
    assertTrue(out.contains("another classloader") && out.contains("put this JAR on the parent loader of both"), out);
  }

  /** Scores on four threads by a loader that is dropped and collected, three times: a web application that is redeployed. */
  public static final class Redeployed {
    private static WeakReference<ClassLoader> once(URL[] jar, String bundle) throws Exception {
      try (URLClassLoader loader = new URLClassLoader(jar, ClassLoader.getPlatformClassLoader())) {
        Class<?> modelClass = loader.loadClass("org.dpiframe.Model");
        Object builder = modelClass.getMethod("builder").invoke(null);
        builder.getClass().getMethod("option", String.class, String.class).invoke(builder, "threads", "4");
        builder.getClass().getMethod("path", String.class).invoke(builder, bundle);
        Object model = builder.getClass().getMethod("load").invoke(builder);
        Object schema = modelClass.getMethod("schema").invoke(model);
        int slots = (int) schema.getClass().getMethod("slots").invoke(schema);
        int dense = (int) schema.getClass().getMethod("denseDim").invoke(schema);
        modelClass.getMethod("predict", float[].class, long[].class).invoke(model, new float[4096 * dense], new long[4096 * slots]);
        modelClass.getMethod("close").invoke(model);
        return new WeakReference<>(loader);
      }
    }

    private static long poolThreads() throws Exception {
      try (Stream<Path> tasks = Files.list(Path.of("/proc/self/task"))) {
        return tasks.filter(task -> {
          try {
            return Files.readString(task.resolve("comm")).strip().equals("dpi-pool");
          } catch (java.io.IOException gone) {
            return false;
          }
        }).count();
      }
    }

    public static void main(String[] args) throws Exception {
      URL[] jar = {Path.of(System.getProperty("two.jar")).toUri().toURL()};
      for (int round = 0; round < 3; round++) {
        WeakReference<ClassLoader> loader = once(jar, System.getProperty("two.bundle"));
        for (int i = 0; i < 200 && (loader.get() != null || poolThreads() > 0); i++) {
          System.gc();
          Thread.sleep(10);
        }
        System.out.println("collected " + (loader.get() == null) + ", threads " + poolThreads());
      }
    }
  }

  /** A loader that is gone leaves no thread of the pool behind, and the next one works. */
  @Test
  void redeployed() throws Exception {
    String out = Support.java(Redeployed.class, List.of(), List.of(), "-Ddpi.native.extractDir=" + temp.resolve("redeployed"),
        "-Dtwo.jar=" + System.getProperty("dpi.test.jar"), "-Dtwo.bundle=" + Support.demo("adult_widedeep.h5"));
    assertEquals("collected true, threads 0\n".repeat(3).strip(), out.strip());
  }

  private static List<String> with(List<String> command, String... more) {
    List<String> all = new ArrayList<>(command);
    all.addAll(List.of(more));
    return all;
  }

  /** A library of another major version: both versions and the file's path are in the text. */
  @Test
  void anotherVersionIsRefused() throws Exception {
    Path source = temp.resolve("other.c");
    Files.writeString(source, "unsigned dpi_version(void) { return 20003; }\n"
        + "const char* dpi_build_info_json(void) { return \"{\\\"path\\\":\\\"other/libdpi.so.1\\\"}\"; }\n");
    Path map = Support.ROOT.resolve("capi/src/exports.map");
    Path lib = temp.resolve("libdpi.so.1");
    Support.run(List.of("cc", "-shared", "-fPIC", "-Wl,-soname,libdpi.so.1", "-Wl,--undefined-version",
        "-Wl,--version-script=" + map, "-o", lib.toString(), source.toString()));
    String out = child("-Ddpi.library.path=" + lib, "-Ddpi.native.extractDir=" + temp.resolve("x"));
    assertTrue(out.startsWith("VERSION ") && out.contains("1.2.0") && out.contains("2.0.3"), out);
    assertTrue(out.contains("other/libdpi.so.1") && out.contains("again VERSION"), out);
  }
}
