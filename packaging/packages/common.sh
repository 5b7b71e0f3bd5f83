# shellcheck shell=bash
# What all steps of ../build.sh use: the project's facts, the list of packages, bills of materials.

GLIBC_FLOOR=2.34
PACKAGER="${DPI_PACKAGER:-DPIFrame SDK maintainers <maintainers@dpiframe.org>}"
HOMEPAGE=https://dpiframe.org

# say TEXT: a step, with the time since the start in minutes and seconds.
say() { printf '==> %d:%02d %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*"; }
# tenths: of ninja's lines "[done/all] ..." one for each tenth of the way, at once.
tenths() {
  local line last=0 tenth
  while IFS= read -r line; do
    [[ "$line" =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
    tenth=$((10 * BASH_REMATCH[1] / BASH_REMATCH[2]))
    [ $tenth -gt $last ] || continue
    last=$tenth
    echo "    ${BASH_REMATCH[1]} of ${BASH_REMATCH[2]} files"
  done
}
fail() { printf 'packaging/build.sh: %s\n' "$*" >&2; exit 1; }

# facts: the version, the time and the CUDA plugin.
facts() {
  version="$(sed -n 's/^project(dpi VERSION \([0-9.]*\) .*/\1/p' "$ROOT/CMakeLists.txt")"
  [ -n "$version" ] || fail "CMakeLists.txt names no version"
  full="$version-$revision"
  export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git -c safe.directory="$ROOT" -C "$ROOT" log -1 --format=%ct 2>/dev/null || echo 1767225600)}"
  plugin=""
  [ $cross = no ] || return 0
  if [ -n "$cuda" ]; then
    plugin="$cuda/lib/dpi/backends-1/libdpi_cuda.so"
    [ -f "$plugin" ] || fail "$plugin is not there"
  elif [ -f "$ROOT/build/cuda/lib/dpi/backends-1/libdpi_cuda.so" ] && ninja -C "$ROOT/build/cuda" -n dpi_cuda | grep 'no work to do' >/dev/null; then
    cuda="$ROOT/build/cuda" plugin="$ROOT/build/cuda/lib/dpi/backends-1/libdpi_cuda.so"
  fi
  [ -n "$plugin" ] || say "libdpi1-cuda13 is left out: no up-to-date build/cuda has libdpi_cuda.so (cmake --preset release -B build/cuda -DDPI_CUDA=ON)"
}

# packages FORMAT: the names of the descriptions in list/, without those of another format only and those whose `when` does not hold,
# and without those for every processor where the packages are for another than this machine's.
packages() {
  local file
  for file in "$here"/list/*.sh; do
    (describe_package "$(basename "$file" .sh)"; if [[ "$only" = "" || "$only" = "$1" ]] && [[ $cross = no || $arch != all ]] && eval "$when"; then echo "$name"; fi)
  done
}

# describe_package NAME: the fields of its description, in the caller's variables. `when` is a command: is the package made? `only` is the one format
# that it is made in.
describe_package() {
  name="$1" when=true only="" rpm="" section="" multi_arch="" arch=any notices="" summary="" about="" files=() deb=() rpm_tags=()
  . "$here/list/$1.sh"
}

# each FORMAT COMMAND...: the command for every package, in a shell that knows its description.
each() {
  local format="$1" package
  shift
  for package in $(packages "$format"); do
    (describe_package "$package"; folder="$stage/$format/$package"; "$@" "$format")
  done
}

# elf_files FOLDER: programs and libraries.
elf_files() {
  find "$1" -type f -size +3c -print0 | sort -z | while IFS= read -r -d '' file; do
    if head -c 4 "$file" | grep -aq ELF; then echo "$file"; fi
  done
}

# floor FILE: the newest glibc that it asks for.
floor() { readelf -VW "$1" | grep -oE 'GLIBC_[0-9.]+' | sed 's/GLIBC_//' | sort -Vu | tail -n 1; }

# all_times FOLDER: one time for everything, whenever it was written.
all_times() { find "$1" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +; }

# materials NAME FOLDER OUT: the bill of materials of what a package installs. A plugin is described by its own build's table, the
# documentation by that of site.sh.
materials() {
  local table="$tree/packaging/third_party.cmake"
  [ "$notices" != cuda ] || table="$cuda/packaging/third_party.cmake"
  [ "$notices" != site ] || table="$stage/site.cmake"
  (cd "$2" && find . -path ./DEBIAN -prune -o -type f -print | sed 's|^\./||' | sort) >"$stage/listed"
  cmake -DTABLE="$table" -DNAME="$1" -DVERSION="$version" -DROOT="$2" -DLIST="$stage/listed" -DOUT="$3" -P "$ROOT/packaging/sbom.cmake"
}
