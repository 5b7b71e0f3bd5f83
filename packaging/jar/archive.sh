# shellcheck shell=bash
# For make_jars.sh, make_class_jar.sh and make_cuda_jar.sh, which set `out`, `version`, `work`, `here` and `packaging`: writes an archive whose bytes
# depend on the files' names and contents only. Entries are sorted and carry the time of SOURCE_DATE_EPOCH (default: 2026-01-01).
export LC_ALL=C TZ=UTC

manifest() {  # title [Automatic-Module-Name]
  printf 'Implementation-Title: %s\nImplementation-Version: %s\n' "$1" "$version"
  [ $# -lt 2 ] || printf 'Automatic-Module-Name: %s\n' "$2"
  printf 'Created-By: dpi %s\n' "$version"
}

# machine_of FILE: the processor of a library, as the kernel names it.
machine_of() {
  case "$(readelf -hW "$1" | sed -n 's/^ *Machine: *//p')" in
    *X86-64) echo x86_64 ;;
    AArch64) echo aarch64 ;;
    *) echo "$1 is for a processor that no loader knows" >&2; return 1 ;;
  esac
}

# strip_to FILE FOLDER [NAME]: a stripped copy of a library, by the tool of its processor where this machine's knows it not.
strip_to() {
  local tool machine
  machine="$(machine_of "$1")"
  tool="$(command -v "$machine-linux-gnu-strip" || command -v strip)"
  mkdir -p "$2"
  "$tool" --strip-unneeded -o "$2/${3:-$(basename "$1")}" "$1"
}

# natives TREE LIBDPI LIBDPI_JNI: where the loader looks for them on their processor.
natives() {
  local folder
  folder="$1/dpi/native/linux-$(machine_of "$2")"
  [ ! -e "$folder" ] || { echo "two builds for one processor: $2" >&2; return 1; }
  strip_to "$2" "$folder" libdpi.so.1
  strip_to "$3" "$folder" libdpi_jni.so
}

# describe FOLDER NAME: licences, notices and the bill of materials of a folder that holds libraries, in its META-INF.
describe() {
  local folder="$1" name="$2"
  mkdir -p "$folder/META-INF/sbom"
  cp -r "$packaging/notices/." "$folder/META-INF/"
  (cd "$folder" && find . -type f | sed 's|^\./||' | sort) >"$work/listed"
  cmake -DTABLE="$packaging/third_party.cmake" -DNAME="$name" -DVERSION="$version" -DROOT="$folder" -DLIST="$work/listed" \
    -DOUT="$folder/META-INF/sbom/$name.spdx.json" -P "$here/../sbom.cmake"
}

# pom FOLDER: what Maven reads of an archive.
pom() {
  local maven="$1/META-INF/maven/org.dpiframe/dpi"
  mkdir -p "$maven"
  sed "s/@VERSION@/$version/" "$here/pom.xml.in" >"$maven/pom.xml"
  printf 'version=%s\ngroupId=org.dpiframe\nartifactId=dpi\n' "$version" >"$maven/pom.properties"
}

# pack NAME FOLDER TITLE [MODULE]: all files of the folder into $out/NAME.
pack() {
  local name="$1" folder="$2" list="$work/list" date
  shift 2
  mkdir -p "$folder/META-INF"
  cp "$packaging/notices/LICENSE" "$folder/META-INF/LICENSE"
  date="$(date -u -d "@${SOURCE_DATE_EPOCH:-1767225600}" +%Y-%m-%dT%H:%M:%SZ)"
  manifest "$@" >"$work/manifest"
  (cd "$folder" && find . -type f | sed 's|^\./||' | sort) >"$list"
  (cd "$folder" && jar --create --file "$work/$name" --manifest "$work/manifest" --date "$date" "@$list")
  mv "$work/$name" "$out/$name"
}
