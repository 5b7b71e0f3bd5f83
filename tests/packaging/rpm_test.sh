#!/usr/bin/env bash
# The .rpms by rpm's own tools, in a scratch database and root: rpm_test.sh OLDER FOLDER, two folders of packages. What each requires and
# provides, its files, an upgrade from the older ones, its signature-less check, its payload at work, and that nothing stays when all are removed.
set -euo pipefail
older="$(cd "$1" && pwd)" out="$(cd "$2" && pwd)"
source="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
root="$scratch/root"
mkdir "$root"
rpm() { command rpm --root "$root" --dbpath /rpmdb "$@"; }
rpm --initdb

expect() {  # PACKAGE --requires|--provides LINE...: all of these
  local package="$1" what="$2" line
  shift 2
  rpm -qp "$what" "$out/$package"-[0-9]*.rpm >"$scratch/said"
  for line in "$@"; do
    grep -qxF -- "$line" "$scratch/said" || { echo "$package $what lacks $line:"; cat "$scratch/said"; return 1; }
  done
}
full="$(command rpm -qp --qf '%{VERSION}-%{RELEASE}' "$out"/dpi-libs-[0-9]*.rpm)"
requirements() {
  expect dpi-libs --provides 'libdpi.so.1()(64bit)' 'libdpi.so.1(DPI_1.0)(64bit)' 'libdpi.so.1(DPI_1.1)(64bit)'
  expect dpi-libs --requires 'libc.so.6(GLIBC_2.34)(64bit)' 'libm.so.6()(64bit)'
  expect dpi-devel --requires "dpi-libs(x86-64) = $full"
  expect dpi-devel --provides "pkgconfig(dpi) = ${full%-*}"
  expect dpi-jni --requires 'libdpi.so.1(DPI_1.0)(64bit)'
  expect dpi-java --requires "dpi-jni = $full"
  expect golang-dpi-devel --requires "dpi-devel = $full"
  expect python3-dpi-export --requires 'python(abi) = 3.9' 'python3.9dist(numpy) >= 1.20' 'python3.9dist(h5py) >= 3.6'
  expect python3.11-dpi --requires 'python(abi) = 3.11' 'python3.11dist(numpy) >= 1.20' 'libdpi.so.1(DPI_1.0)(64bit)'
  expect python3.11-dpi --provides 'python3.11dist(dpi) = 1'
  local package
  for package in "$out"/*.rpm; do
    if command rpm -qp --requires "$package" | grep -E 'libcuda|GLIBC_2\.(3[5-9]|[4-9][0-9])|libstdc'; then return 1; fi
    if command rpm -qp --provides "$package" | grep -E 'libdpi_(jni|cuda)'; then return 1; fi
    # The plugins for stores are Debian's alone: what they need has another version elsewhere, or is not there.
    if command rpm -qp --requires --list "$package" | grep -E 'librocksdb|libhiredis|librdkafka|libdpi_(rocksdb|redis|kafka)'; then return 1; fi
  done
}
requirements
# A planted wrong one must be missed, or expect sees nothing.
! expect dpi-libs --provides 'libdpi.so.2()(64bit)' >/dev/null || { echo "a planted requirement is not noticed"; exit 1; }

# rpmlint finds nothing but what rpmlint.toml gives a reason for; and it looks: without that it finds something.
rpmlint -c "$source/tests/packaging/rpmlint.toml" "$out"/*.rpm >"$scratch/lint" || { cat "$scratch/lint"; exit 1; }
if grep -E ': [EW]: ' "$scratch/lint"; then exit 1; fi
if rpmlint "$out"/dpi-libs-[0-9]*.rpm >"$scratch/lint"; then echo "rpmlint finds nothing to filter"; exit 1; fi

# What they need of the system is the host's here, and known to dpkg only.
rpm -i --nodeps --noscripts --nosignature "$older"/*.rpm
rpm -Va --nodeps
"$root/usr/bin/dpi" verify "$root/usr/share/doc/dpi-devel/examples/adult_widedeep.h5" >"$scratch/log"
"$source/tests/packaging/rpm_upgrade.sh" "$root" "$older" "$out"
rpm -Va --nodeps
test "$(rpm -qf --qf '%{NAME}' /usr/lib64/libdpi.so.1)" = dpi-libs
echo planted >>"$root/usr/include/dpi/dpi.h"
if rpm -Va --nodeps >/dev/null; then echo "a changed file is not noticed"; exit 1; fi
rpm -i --nodeps --nosignature --replacepkgs --replacefiles "$out"/dpi-devel-[0-9]*.rpm
rpm -Va --nodeps

"$source/tests/packaging/rpm_materials.py" "$out" "$root"

examples="$root/usr/share/doc/dpi-devel/examples"
"$root/usr/bin/dpi" verify "$examples/adult_widedeep.h5" >"$scratch/log"
"$root/usr/bin/dpi" predict "$examples/adult_widedeep.h5" "$examples/adult_test.csv" --raw >"$scratch/scores.csv"
test "$(wc -l <"$scratch/scores.csv")" = 16282
export PKG_CONFIG_PATH="$root/usr/lib64/pkgconfig"
# shellcheck disable=SC2046
cc "$examples/02_score_batch.c" $(pkg-config --cflags --libs dpi) -o "$scratch/batch"
# A backtrace by the debug symbols; without them none.
# shellcheck disable=SC2046
cc -g "$source/tests/packaging/dies.c" $(pkg-config --cflags --libs dpi) -o "$scratch/dies"
frames() {  # FOLDER OF SYMBOLS: how many frames name a source of the library
  LD_LIBRARY_PATH="$root/usr/lib64" gdb -batch -nx -iex 'set debuginfod enabled off' -iex "set debug-file-directory $1" -ex run -ex bt \
    --args "$scratch/dies" "$examples/adult_widedeep.h5" 2>&1 | grep -cE 'dpi_model_load \(path=.* at /usr/src/dpi-[0-9.]+/capi/src/model\.cpp:[0-9]+' || true
}
test "$(frames "$root/usr/lib/debug")" = 1
test "$(frames /nowhere)" = 0
LD_LIBRARY_PATH="$root/usr/lib64" "$scratch/batch" "$examples/adult_widedeep.h5" >>"$scratch/log"
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$root/usr/lib/python3.9/site-packages" /usr/bin/python3 -m dpi_export verify "$examples/adult_widedeep.h5" >>"$scratch/log"
# The package dpi on the library beside it, by the Python that it is for; and where that is not looked for, it is not found.
consumer=(env PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$root/usr/lib64/python3.11/site-packages" /usr/bin/python3.11 "$source/tests/packaging/consumer.py"
  "$root" "$examples/adult_widedeep.h5" "$examples/adult_test.csv" "$scratch/scores.csv")
LD_LIBRARY_PATH="$root/usr/lib64" "${consumer[@]}" >>"$scratch/log"
if "${consumer[@]}" >"$scratch/python" 2>&1; then echo "import dpi needs no library"; exit 1; fi
grep -q 'libdpi.so.1: cannot open' "$scratch/python"
grep -q '<svg' "$root/usr/share/doc/dpi-doc/html/plans.html"
"$root/usr/bin/dpi" repack "$examples/adult_widedeep.h5" "$scratch/again.h5" --python /usr/bin/python3 >>"$scratch/log"
LD_LIBRARY_PATH="$root/usr/lib64" java -Djava.library.path="$root/usr/lib64/dpi" -cp "$root/usr/share/java/dpi.jar" \
  "$source/samples/java/Score.java" "$examples/adult_widedeep.h5" >"$scratch/java"
grep -q '^row 1' "$scratch/java"

mapfile -t all < <(rpm -qa)
# Files, and folders that only these packages have.
left() { find "$root" -mindepth 1 -path "$root/rpmdb" -prune -o ! -type d -print -o -type d \( -name 'dpi*' -o -path '*/.build-id/*' \) -print; }
rpm -e --nodeps "${all[@]}"
[ -z "$(left)" ] || { echo "stays after the removal:"; left; exit 1; }
mkdir -p "$root/usr/lib64/dpi"
[ -n "$(left)" ] || { echo "a planted folder is not noticed"; exit 1; }
echo "${#all[@]} packages installed, used and removed"
