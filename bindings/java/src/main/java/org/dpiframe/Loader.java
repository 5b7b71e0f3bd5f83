package org.dpiframe;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Loads libdpi.so.1 and the JNI wrapper libdpi_jni.so, from the first of these that works:
 *
 * <ol>
 *   <li>{@code -Ddpi.library.path}: the library's file or its folder; nothing else is tried then;
 *   <li>the system: libdpi_jni.so in {@code java.library.path} or the distribution's folder for JNI libraries;
 *   <li>the JAR's own copy for this processor, with the CUDA backend's plugin if its JAR is on the class path, extracted to {@code
 *       -Ddpi.native.extractDir}, else the user's cache folder, else {@code java.io.tmpdir}: a folder of mode 0700 named by
 *       version and digest, whose files are compared byte by byte.
 * </ol>
 *
 * The text of a failure lists every place with its reason.
 */
final class Loader {
  private static final String LIBRARY = "libdpi.so.1";
  private static final String WRAPPER = "libdpi_jni.so";
  private static final String PLUGIN = "dpi/backends-1/libdpi_cuda.so";  // below the library's folder, where it looks
  private static final List<String> MACHINES = List.of("x86_64", "aarch64");  // as the kernel names them; those a JAR may hold
  private static final String MACHINE = machine(System.getProperty("os.arch"));
  private static final String RESOURCES = resources(MACHINE);

  private final List<String> tried = new ArrayList<>();

  private Loader() {}

  static void load() {
    new Loader().run();
  }

  private void run() {
    String explicit = System.getProperty("dpi.library.path");
    boolean done = explicit != null ? fromPath(Path.of(explicit)) : fromSystem() || fromJar(List.of(LIBRARY, WRAPPER));
    if (done) return;
    StringBuilder text = new StringBuilder("cannot load the native library " + LIBRARY + " with " + WRAPPER + "; tried:");
    for (String t : tried) text.append("\n  ").append(t);
    throw DpiException.of(DpiException.Detail.of(Status.NOT_FOUND, text + platformNote()));
  }

  /** A virtual machine's name of a processor, as the kernel has it. */
  static String machine(String arch) {
    return arch.equals("amd64") ? "x86_64" : arch;
  }

  private static String resources(String machine) {
    return "dpi/native/linux-" + machine + "/";
  }

  private static String platformNote() {
    String os = System.getProperty("os.name");
    List<String> held = MACHINES.stream().filter(m -> resource(resources(m) + LIBRARY)).toList();
    if (!os.equals("Linux") || !held.contains(MACHINE)) {
      return "\nThe JAR holds libraries for Linux on " + String.join(" and ", held) + "; this is " + os + " on " + MACHINE;
    }
    Path loader = Path.of(MACHINE.equals("x86_64") ? "/lib64/ld-linux-x86-64.so.2" : "/lib/ld-linux-aarch64.so.1");
    for (String musl : List.of("/lib/ld-musl-" + MACHINE + ".so.1", "/etc/alpine-release")) {
      if (Files.exists(Path.of(musl)) && !Files.exists(loader)) {
        return "\nThis system uses musl, the library needs glibc: use an image based on glibc";
      }
    }
    return "";
  }

  /** The user's library; the wrapper beside it, or else the JAR's. */
  private boolean fromPath(Path path) {
    Path library = Files.isDirectory(path) ? path.resolve(LIBRARY) : path;
    if (!open(library.toAbsolutePath(), "-Ddpi.library.path")) return false;
    Path wrapper = library.toAbsolutePath().resolveSibling(WRAPPER);
    return Files.exists(wrapper) ? open(wrapper, "beside the library") : fromJar(List.of(WRAPPER));
  }

  private boolean fromSystem() {
    List<String> folders = new ArrayList<>(Arrays.asList(System.getProperty("java.library.path", "").split(":")));
    folders.add("/usr/lib/" + MACHINE + "-linux-gnu/jni");
    folders.add("/usr/lib/jni");
    folders.add("/usr/lib64/dpi");
    for (String folder : folders) {
      if (folder.isEmpty()) continue;
      Path wrapper = Path.of(folder).toAbsolutePath().resolve(WRAPPER);
      if (!Files.exists(wrapper)) continue;
      Path beside = wrapper.resolveSibling(LIBRARY);
      if (Files.exists(beside) && !open(beside, "system")) continue;
      if (open(wrapper, "system")) return true;
    }
    tried.add("system: no " + WRAPPER + " in " + String.join(":", folders));
    return false;
  }

  private boolean open(Path file, String source) {
    try {
      System.load(file.toString());
      return true;
    } catch (UnsatisfiedLinkError e) {
      String why = String.valueOf(e.getMessage());
      if (why.contains("failed to map segment")) why += " (the file system is mounted noexec, or execution is denied)";
      if (why.contains("another classloader")) {
        why += " (a virtual machine binds a native library to one class loader: put this JAR on the parent loader of both)";
      }
      tried.add(source + ": " + (why.contains(file.toString()) ? "" : file + ": ") + why);
      return false;
    }
  }

  // ---- the JAR's copy ----------------------------------------------------------------------------------------------

  /** Extracts and opens these libraries; the plugin only comes with them when its JAR is there. */
  private boolean fromJar(List<String> libraries) {
    Map<String, byte[]> files = new LinkedHashMap<>();
    for (String name : libraries) {
      if (!read(name, files)) {
        tried.add("JAR: no entry " + RESOURCES + name);
        return false;
      }
    }
    if (libraries.contains(LIBRARY)) read(PLUGIN, files);
    String folder = Native.versionText(org.dpiframe.internal.DpiNativeConstants.DPI_VERSION_NUMBER) + "-" + digest(files);
    for (Path base : bases()) {
      if (extractAndOpen(base, folder, files, libraries)) return true;
    }
    return false;
  }

  private static boolean resource(String name) {
    return Loader.class.getClassLoader().getResource(name) != null;
  }

  private boolean read(String name, Map<String, byte[]> files) {
    // By the class loader, which also sees a JAR that is a module of its own: "linux-x86_64" is no package, so nothing hides it.
    try (InputStream in = Loader.class.getClassLoader().getResourceAsStream(RESOURCES + name)) {
      if (in != null) files.put(name, in.readAllBytes());
    } catch (IOException e) {
      tried.add("JAR: " + RESOURCES + name + ": " + e);
    }
    return files.containsKey(name);
  }

  private static List<Path> bases() {
    List<Path> bases = new ArrayList<>();
    String explicit = System.getProperty("dpi.native.extractDir");
    if (explicit != null) return List.of(Path.of(explicit).toAbsolutePath());
    String cache = System.getenv("XDG_CACHE_HOME");
    String home = System.getProperty("user.home", "");
    if (cache != null && cache.startsWith("/")) {
      bases.add(Path.of(cache, "dpi"));
    } else if (home.startsWith("/") && home.length() > 1) {
      bases.add(Path.of(home, ".cache", "dpi"));
    }
    bases.add(Path.of(System.getProperty("java.io.tmpdir"), "dpi-" + System.getProperty("user.name")).toAbsolutePath());
    return bases;
  }

  private boolean extractAndOpen(Path base, String name, Map<String, byte[]> files, List<String> libraries) {
    try {
      Files.createDirectories(base.getParent());
      privateFolder(base);
      Path folder = base.resolve(name);
      privateFolder(folder);
      for (Map.Entry<String, byte[]> f : files.entrySet()) writeBelow(folder, Path.of(f.getKey()), f.getValue());
      for (String file : libraries) {
        if (!open(folder.resolve(file), "extracted from the JAR")) return false;
      }
      return true;
    } catch (IOException | SecurityException e) {
      tried.add("extracting to " + base + ": " + reason(e));
      return false;
    }
  }

  private static void writeBelow(Path folder, Path name, byte[] bytes) throws IOException {
    for (int depth = 1; depth < name.getNameCount(); depth++) privateFolder(folder.resolve(name.subpath(0, depth)));
    writeOnce(folder.resolve(name), bytes);
  }

  private static String reason(Exception e) {
    String text = e.toString();
    return text.contains("Read-only file system") ? text + " (set -Ddpi.native.extractDir to a writable folder)" : text;
  }

  /** Makes the folder with mode 0700, or checks that an existing one is ours alone to write. */
  private static void privateFolder(Path folder) throws IOException {
    try {
      Files.createDirectory(folder, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
      return;
    } catch (FileAlreadyExistsException e) {
      // checked below
    }
    if (!Files.isDirectory(folder, LinkOption.NOFOLLOW_LINKS)) throw new IOException(folder + " is no folder (or a link)");
    Set<PosixFilePermission> mode = Files.getPosixFilePermissions(folder, LinkOption.NOFOLLOW_LINKS);
    if (!Files.getOwner(folder, LinkOption.NOFOLLOW_LINKS).equals(me(folder))) {
      throw new IOException(folder + " belongs to another user");
    }
    if (mode.contains(PosixFilePermission.GROUP_WRITE) || mode.contains(PosixFilePermission.OTHERS_WRITE)) {
      throw new IOException(folder + " may be written by others: mode " + PosixFilePermissions.toString(mode));
    }
  }

  /** The owner of a file that this process makes. */
  private static Object me(Path folder) throws IOException {
    Path probe = Files.createTempFile(folder, ".owner", "");
    try {
      return Files.getOwner(probe);
    } finally {
      Files.delete(probe);
    }
  }

  /** Leaves a file of exactly these bytes: kept if there, else written beside it and moved into place. */
  private static void writeOnce(Path file, byte[] bytes) throws IOException {
    if (Files.isRegularFile(file, LinkOption.NOFOLLOW_LINKS) && Files.size(file) == bytes.length
        && Arrays.equals(Files.readAllBytes(file), bytes)) {
      return;
    }
    Path fresh = Files.createTempFile(file.getParent(), ".new", "");
    try {
      Files.write(fresh, bytes);
      Files.setPosixFilePermissions(fresh, EnumSet.of(PosixFilePermission.OWNER_READ, PosixFilePermission.OWNER_EXECUTE));
      Files.move(fresh, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    } finally {
      Files.deleteIfExists(fresh);
    }
  }

  private static String digest(Map<String, byte[]> files) {
    try {
      MessageDigest sha = MessageDigest.getInstance("SHA-256");
      files.values().forEach(sha::update);
      return HexFormat.of().formatHex(sha.digest(), 0, 16);
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException(e);
    }
  }
}
