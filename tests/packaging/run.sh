#!/usr/bin/env bash
# Builds the packages and does with them what their users do.
#
#   tests/packaging/run.sh [--short] [--cuda DIR] [--jobs N]
#
#   --short    the .debs only, of what the release build compiled: contents, lintian, import dpi, the site, the same bytes twice
#   --cuda DIR the build folder that has the CUDA plugin, as for packaging/build.sh
#   --jobs N   parallel compilations (default: the number of processors)
#
# Otherwise also: all packages with their debug symbols, compiled anew in a copy of the tree elsewhere to the same bytes; .debs in a clean Debian
# root (needs root and debootstrap): consumers in five languages, an upgrade, the removal of everything; .rpms in a scratch root, an upgrade too.
# The library for aarch64 has a stage of its own, tests/run.d/37_aarch64.sh.
# A line begins with "passed:", "FAILED:" or "skipped:" for each check. packaging/setup.sh build bindings packages docs installs what is needed.
set -uo pipefail
umask 022
given_locale="${LC_ALL-}"  # the language of the release build: the compiler cache takes what was compiled in another for something else
export LC_ALL=C.UTF-8
ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)"
here="$ROOT/tests/packaging"
cd "$ROOT" || exit 1
short=no jobs="$(nproc)" cuda=()
while [ $# -gt 0 ]; do
  case "$1" in
    --short) short=yes ;;
    --cuda) cuda=(--cuda "$(realpath "$2")"); shift ;;
    --jobs) jobs="$2"; shift ;;
    *) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 2 ;;
  esac
  shift
done
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
bad=0

check() {  # NAME COMMAND...
  local name="$1"
  shift
  if "$@" >"$scratch/log" 2>&1; then
    echo "passed: $name ($(tail -n 1 "$scratch/log"))"
  else
    tail -n 40 "$scratch/log"
    echo "FAILED: $name"
    bad=1
    return 1
  fi
}

build_here() { if [ -n "$given_locale" ]; then LC_ALL="$given_locale" packaging/build.sh "$@"; else env -u LC_ALL packaging/build.sh "$@"; fi; }

# With these arguments every object is the same as in build/release: the compiler cache has it.
as_release=(--no-debug --jobs "$jobs" -- -DDPI_DEVELOPER_MODE=ON)

# Tags that lintian has a point with in Debian's archive only: a package that is not uploaded there closes no bug.
lintian_clean() {
  lintian --allow-root --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs "$1"/*.deb
}
lintian_notices() {  # a planted fault: a program without a manual page, and a file where none may lie
  dpkg-deb -R "$1"/dpi-tools_*.deb "$scratch/fault" && mkdir "$scratch/fault/usr/local" "$scratch/faulty" && touch "$scratch/fault/usr/local/x" &&
    rm "$scratch/fault/usr/share/man/man1/dpi.1.gz" && dpkg-deb --root-owner-group -b "$scratch/fault" "$scratch/faulty" || return 1
  ! lintian_clean "$scratch/faulty" >"$scratch/tags" && grep no-manual-page "$scratch/tags" && grep usr-local "$scratch/tags"
}
same_files() {  # FOLDER FOLDER: names and bytes
  diff <(cd "$1" && sha256sum -- *.deb *.rpm *.spdx.json 2>/dev/null) <(cd "$2" && sha256sum -- *.deb *.rpm *.spdx.json 2>/dev/null) && (cd "$1" && ls | wc -l)
}
differs() {  # the comparison itself: one byte more in one package
  cp -r "$1" "$scratch/planted" && for file in "$scratch/planted"/libdpi1_*.deb; do echo >>"$file"; done && ! same_files "$1" "$scratch/planted"
}

judge_debs() {  # FOLDER [--debug]
  check "contents, dependencies, rights, sums, links and manual pages of the .debs" /usr/bin/python3 "$here/deb_test.py" "$@"
  check "lintian finds nothing" lintian_clean "$1"
  check "lintian is asked" lintian_notices "$1"
}

# The packed Python package on the packed library, unpacked side by side: `import dpi`, and the program's scores.
unpacked() {  # FOLDER NAME...: into $scratch/unpacked
  local folder="$1" name
  shift
  for name in "$@"; do dpkg-deb -x "$folder/$name"_*.deb "$scratch/unpacked" || return 1; done
}
python_scores() {  # FOLDER
  local root="$scratch/unpacked" examples="$scratch/unpacked/usr/share/doc/libdpi-dev/examples" status=0
  unpacked "$1" libdpi1 libdpi-dev dpi-tools python3-dpi || return 1
  "$root/usr/bin/dpi" predict "$examples/adult_widedeep.h5" "$examples/adult_test.csv" --raw >"$scratch/scores.csv" || return 1
  sed '2s/0\./1./' "$scratch/scores.csv" >"$scratch/planted.csv"  # a score that is another
  local consumer=(env PYTHONDONTWRITEBYTECODE=1 LD_LIBRARY_PATH="$(echo "$root"/usr/lib/*-linux-gnu)" PYTHONPATH="$root/usr/lib/python3/dist-packages"
    /usr/bin/python3 "$here/consumer.py" "$root" "$examples/adult_widedeep.h5" "$examples/adult_test.csv")
  if "${consumer[@]}" "$scratch/planted.csv"; then echo "another score is not noticed"; status=1; fi
  "${consumer[@]}" "$scratch/scores.csv" && return $status
}
# The samples where the packages lay them, by their README.
packed_samples() {  # FOLDER
  rm -rf "$scratch/samples" && mkdir "$scratch/samples" &&
    unpacked "$1" libdpi1 libdpi-dev libdpi-java libdpi-jni golang-dpi-dev python3-dpi && "$here/samples_test.py" "$scratch/unpacked" "$scratch/samples"
}
forgotten_sample() {  # planted: the alerts stay, a source file of the service in Go does not
  rm "$scratch/unpacked/usr/share/doc/libdpi-dev/examples/go/scoreservice/versions.go" && ! packed_samples_again && grep 'undefined: ' "$scratch/said"
}
packed_samples_again() { rm -rf "$scratch/samples" && mkdir "$scratch/samples" && "$here/samples_test.py" "$scratch/unpacked" "$scratch/samples" >"$scratch/said" 2>&1; }
# The packed site is the one that the documentation's own test accepts.
packed_site() {  # FOLDER
  unpacked "$1" dpi-doc libdpi1 libdpi-dev dpi-tools &&
    /usr/bin/python3 tests/docs/site_test.py "$scratch/unpacked/usr/share/doc/dpi-doc/html" --library "$(echo "$scratch"/unpacked/usr/lib/*/libdpi.so.1)" \
      --program "$scratch/unpacked/usr/bin/dpi" --bundle "$scratch/unpacked/usr/share/doc/libdpi-dev/examples/msweb_deepfm.h5"
}

# The plugin's package, where it is made: the program finds it where it lies, and it names what the machine lacks, if anything.
plugin_is_found() {  # FOLDER
  local folder="$scratch/unpacked"
  unpacked "$1" libdpi1-cuda13 dpi-tools && "$folder/usr/bin/dpi" devices >"$scratch/said" || return 1
  grep -E "^cuda +(usable|refused +$folder/usr/lib/[a-z0-9_-]+/dpi/backends-1/libdpi_cuda.so: cannot be used on this machine)" "$scratch/said"
}
judge_plugin() {  # FOLDER
  if compgen -G "$1/libdpi1-cuda13_*.deb" >/dev/null; then
    check "the plugin is found from its package" plugin_is_found "$1"
  else
    echo "skipped: the plugin's package: no up-to-date build/cuda"
  fi
}

# The plugins for stores and streams open from their packages; a copy that asks for another libhiredis does not.
stores_open() {  # FOLDER
  unpacked "$1" libdpi1-rocksdb libdpi1-redis libdpi1-kafka && cc "$here/stores.c" -o "$scratch/stores" || return 1
  local plugins=("$scratch"/unpacked/usr/lib/*/dpi/backends-1/libdpi_{rocksdb,redis}.so)
  mkdir -p "$scratch/other" && sed 's/libhiredis\.so\.0\.14/libhiredis.so.0.99/' "${plugins[1]}" >"$scratch/other/libdpi_redis.so" || return 1
  if "$scratch/stores" store "$scratch/other/libdpi_redis.so"; then echo "a plugin without its library opens"; return 1; fi
  "$scratch/stores" store "${plugins[@]}" && "$scratch/stores" stream "$scratch"/unpacked/usr/lib/*/dpi/backends-1/libdpi_kafka.so
}

# Packages are whole or not made: what a store's plugin is built with is asked for by its name, which the set-up's list has.
whole_or_none() {  # NAME CMAKE ARGUMENT that hides it
  ! build_here --out "$scratch/no_packages" --trees "$scratch/no_trees" --formats deb --no-debug -- "$2" >"$scratch/said" 2>&1 || return 1
  grep "$1 is not here" "$scratch/said" && [ -z "$(find "$scratch/no_packages" -name '*.deb')" ] && packaging/setup.sh --print packages | grep -x "$1"
}
without() {  # MODULE: in the place of pkg-config
  printf '#!/bin/sh\ncase "$*" in *%s*) exit 1 ;; esac\nexec pkg-config "$@"\n' "$1" >"$scratch/pkg-config" && chmod +x "$scratch/pkg-config"
}
judge_stores() {
  check "without librocksdb-dev no packages" whole_or_none librocksdb-dev -DDPI_ROCKSDB_LIBRARY=
  rm -rf "$scratch/no_trees"
  without hiredis && check "without libhiredis-dev no packages" whole_or_none libhiredis-dev "-DPKG_CONFIG_EXECUTABLE=$scratch/pkg-config"
  rm -rf "$scratch/no_trees"
  without openssl && check "without libssl-dev no packages" whole_or_none libssl-dev "-DPKG_CONFIG_EXECUTABLE=$scratch/pkg-config"
  rm -rf "$scratch/no_trees"
  without rdkafka && check "without librdkafka-dev no packages" whole_or_none librdkafka-dev "-DPKG_CONFIG_EXECUTABLE=$scratch/pkg-config"
}

# A plugin of another build of the backend interface is not packed.
other_plugin() {
  local folder="$scratch/cuda/lib/dpi/backends-1"
  mkdir -p "$folder" &&
    echo 'const char* dpi_backend_layout_v1(void) { return "4-0123456789abcdef"; } int dpi_backend_init_v1(void) { return 1; } int dpi_backend_score_v1(void) { return 1; }' |
    cc -shared -fPIC -x c - -o "$folder/libdpi_cuda.so" || return 1
  ! build_here --out "$scratch/no_packages" --formats deb --cuda "$scratch/cuda" "${as_release[@]}" >"$scratch/said" 2>&1 || return 1
  cat "$scratch/said"
  grep -q 'was built for the backend interface .4-0123456789abcdef' "$scratch/said" && [ -z "$(find "$scratch/no_packages" -name '*.deb')" ]
}

short_form() {
  local first="$ROOT/build/packages-short" second="$scratch/second"
  check "the .debs" build_here --out "$first" --formats deb "${cuda[@]}" "${as_release[@]}" || return
  judge_debs "$first"
  check "import dpi from the packages, and the program's scores" python_scores "$first"
  check "the packed samples, by their README" packed_samples "$first" && check "a forgotten source of a sample is noticed" forgotten_sample
  check "the packed documentation is valid and whole" packed_site "$first"
  judge_plugin "$first"
  check "the plugins for stores open from their packages" stores_open "$first"
  judge_stores
  check "the .debs once more" build_here --out "$second" --formats deb "${cuda[@]}" "${as_release[@]}" || return
  check "both have the same bytes" same_files "$first" "$second"
  check "a byte more is noticed" differs "$first"
  check "a plugin of another build of the interface is not packed" other_plugin
}

# What a caller sees of a whole build: the minutes of a long step, the time since the start, each tenth of the compilation.
tells_progress() {  # LOG
  local steps tenths
  steps="$(grep -cE '^==> [0-9]+:[0-5][0-9] ' "$1")" tenths="$(grep -cE '^    [0-9]+ of [0-9]+ files$' "$1")"
  echo "$steps steps with their time, $tenths parts of the compilation"
  [ "$steps" -ge 10 ] && [ "$tenths" -ge 10 ] && grep -E '^==> [0-9:]+ deb: building .*: about [0-9]+ minutes ' "$1" >/dev/null
}
silent() { sed -E '/ of [0-9]+ files$/d' "$1" >"$scratch/silent" && ! tells_progress "$scratch/silent"; }  # planted

# Debug symbols for backtraces, without the types of the whole library, which alone would take more than this.
debug_is_small() {  # FOLDER
  local packed=0 file installed=0
  for file in "$1"/*-dbgsym_*.deb; do
    packed=$((packed + $(stat -c %s "$file")))
    installed=$((installed + $(dpkg-deb -f "$file" Installed-Size)))
  done
  echo "-dbgsym: $((packed / 1000)) kB packed, $installed KiB installed"
  [ $packed -gt 0 ] && [ $packed -le 25000000 ] && [ $installed -le 28000 ]
}

# Another folder, another name, nothing from a compiler cache.
elsewhere() {
  local copy="$scratch/another place"
  copy="${copy// /_}"
  mkdir "$copy"
  git -c safe.directory="$ROOT" ls-files -coz --exclude-standard | xargs -0 cp --parents -t "$copy" && [ ! -d shared ] || true
  SOURCE_DATE_EPOCH="$(git -c safe.directory="$ROOT" log -1 --format=%ct)" CCACHE_DISABLE=1 "$copy/packaging/build.sh" --out "$scratch/elsewhere" "${cuda[@]}" --jobs "$jobs" \
    | tee "$scratch/progress"
}

# The record of the binary interface holds for the library that is packed, by its debug symbols.
real_abi() {  # FOLDER
  local package
  for package in libdpi1 libdpi1-dbgsym; do dpkg-deb -x "$1/$package"_*.deb "$scratch/abi" || return 1; done
  /usr/bin/python3 tests/abi/compiled_abi.py --library "$(realpath "$scratch"/abi/usr/lib/*/libdpi.so.1)" --debug "$scratch/abi/usr/lib/debug"
}

full_form() {
  local out="$ROOT/build/packages" older="$scratch/older"
  check "all packages" packaging/build.sh --out "$out" "${cuda[@]}" --jobs "$jobs" || return
  judge_debs "$out" --debug
  check "import dpi from the packages, and the program's scores" python_scores "$out"
  check "the packed samples, by their README" packed_samples "$out"
  check "the packed documentation is valid and whole" packed_site "$out"
  judge_plugin "$out"
  check "the plugins for stores open from their packages" stores_open "$out"
  check "a byte more is noticed" differs "$out"
  check "the binary interface is the recorded one" real_abi "$out"
  check "debug symbols are small" debug_is_small "$out"
  check "the packages numbered one lower" packaging/build.sh --out "$older" --revision 0 "${cuda[@]}" --jobs "$jobs" || return
  check "the .rpms" "$here/rpm_test.sh" "$older" "$out"
  if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null || ! unshare --mount true 2>/dev/null; then
    echo "skipped: the .debs in a clean Debian root: needs root, debootstrap and the right to mount"
  else
    "$here/root_test.sh" "$older" "$out" || bad=1
  fi
  check "all packages, compiled anew elsewhere" elsewhere || return
  check "both have the same bytes" same_files "$out" "$scratch/elsewhere"
  check "a build tells its steps, minutes and tenths" tells_progress "$scratch/progress"
  check "a build without tenths is noticed" silent "$scratch/progress"
}

if [ $short = yes ]; then short_form; else full_form; fi
exit $bad
