#!/usr/bin/env bash
# The packages for arm64 as a machine of that kind has them, under qemu-user: arm64_test.sh PACKAGES SYSROOT. PACKAGES has .debs and .rpms, SYSROOT is
# what packaging/sysroot.sh unpacked: Python, numpy and the libraries of the plugins for stores. deb_test.py looks at contents and dependencies.
#
# An emulated processor shows what is computed, not how fast.
set -euo pipefail
source="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)"
here="$source/tests/packaging"
packages="$(cd "$1" && pwd -P)" sysroot="$(cd "$2" && pwd -P)"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

# on ROOT COMMAND...: a program of arm64 with the libraries of an unpacked root, and those of the sysroot.
on() {
  local libraries="$sysroot/usr/lib/aarch64-linux-gnu"
  qemu-aarch64 -cpu max,pauth-impdef=on -L "$sysroot" -E LD_LIBRARY_PATH="$1/usr/lib/aarch64-linux-gnu:$1/usr/lib64:$libraries:$libraries/blas:$libraries/lapack" "${@:2}"
}

# every_file ROOT: programs and libraries are all for this processor, and there are some.
every_file() {
  local file count=0
  while read -r file; do
    readelf -hW "$file" | grep 'Machine: *AArch64' >/dev/null && file "$file" | grep 'ARM aarch64' >/dev/null || { echo "$file is for another processor"; return 1; }
    count=$((count + 1))
  done < <(find "$1" -type f -size +3c -exec sh -c 'head -c 4 "$1" | grep -aq ELF' _ {} \; -print)
  [ $count -gt 0 ] || { echo "$1 has no program"; return 1; }
}

# scores ROOT EXAMPLES: every model has the scores of the framework that trained it, on both backends; a CSV file's go into $scratch/scores.csv.
scores() {
  local model backend
  for model in "$2"/*.h5; do
    for backend in cpu ref; do on "$1" "$1/usr/bin/dpi" verify "$model" --device $backend; done
  done
  if on "$1" "$1/usr/bin/dpi" verify "$2/adult_widedeep.h5" --tolerance 1e-12 >/dev/null; then echo "verify passes whatever it finds"; return 1; fi
  head -n 2001 "$2/adult_test.csv" >"$scratch/rows.csv"
  on "$1" "$1/usr/bin/dpi" predict "$2/adult_widedeep.h5" "$scratch/rows.csv" --raw >"$scratch/scores.csv"
  [ "$(wc -l <"$scratch/scores.csv")" = 2001 ]
}

# samples ROOT EXAMPLES LIB: the programs in C and C++, compiled as pkg-config says, and they score as the program does.
samples() {
  local sample flags
  flags="$(PKG_CONFIG_PATH="$1/$3/pkgconfig" pkg-config --cflags --libs dpi)"
  for sample in 01_score_csv.c 02_score_batch.c 03_score_candidates.cpp; do
    # shellcheck disable=SC2086
    aarch64-linux-gnu-g++ $([[ $sample = *.c ]] && echo -x c -std=c99 || echo -std=c++20) "$2/$sample" -x none $flags -o "$scratch/${sample%.*}"
  done
  on "$1" "$scratch/02_score_batch" "$2/adult_widedeep.h5" | tee "$scratch/batch"
  on "$1" "$scratch/03_score_candidates" "$2/msweb_deepfm.h5" >"$scratch/candidates"
  grep '[0-9]' "$scratch/candidates" >/dev/null
  on "$1" "$scratch/01_score_csv" "$2/adult_widedeep.h5" "$scratch/rows.csv" >"$scratch/sample.csv"
  close "$scratch/sample.csv" "$scratch/scores.csv" || { echo "the sample scores otherwise than the program"; return 1; }
  sed '7s/0\./1./' "$scratch/scores.csv" >"$scratch/planted.csv"
  if close "$scratch/sample.csv" "$scratch/planted.csv"; then echo "another score is not noticed"; return 1; fi
}
close() {  # FILE FILE: the same numbers, below the second one's heading
  /usr/bin/python3 -c 'import numpy, sys
a, b = (numpy.loadtxt(path, skiprows=heading) for heading, path in enumerate(sys.argv[1:]))
sys.exit(not (a.size == b.size == 2000 and numpy.all(numpy.abs(a - b) <= 1e-6)))' "$1" "$2"
}

debs() {
  local root="$scratch/debs" package examples
  for package in "$packages"/*.deb; do
    [ "$(dpkg-deb -f "$package" Architecture)" = arm64 ] || { echo "$package is for another processor"; return 1; }
    [[ $package == *-dbgsym_* ]] || dpkg-deb -x "$package" "$root"
  done
  examples="$root/usr/share/doc/libdpi-dev/examples"
  every_file "$root"
  scores "$root" "$examples"
  samples "$root" "$examples" usr/lib/aarch64-linux-gnu
  aarch64-linux-gnu-gcc "$here/stores.c" -o "$scratch/stores"
  on "$root" "$scratch/stores" store "$root"/usr/lib/aarch64-linux-gnu/dpi/backends-1/libdpi_{rocksdb,redis}.so
  on "$root" "$scratch/stores" stream "$root"/usr/lib/aarch64-linux-gnu/dpi/backends-1/libdpi_kafka.so
  PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$root/usr/lib/python3/dist-packages:$sysroot/usr/lib/python3/dist-packages" on "$root" "$sysroot/usr/bin/python3.11" \
    "$here/consumer.py" "$root" "$examples/adult_widedeep.h5" "$scratch/rows.csv" "$scratch/scores.csv" | sed -n 1,2p | diff - "$scratch/batch"
}

rpms() {
  local root="$scratch/rpms" package full
  mkdir "$root"
  for package in "$packages"/*.rpm; do
    [ "$(rpm -qp --qf '%{ARCH}' "$package")" = aarch64 ] || { echo "$package is for another processor"; return 1; }
    rpm2cpio "$package" | (cd "$root" && cpio -idm --quiet)
  done
  full="$(rpm -qp --qf '%{VERSION}-%{RELEASE}' "$packages"/dpi-libs-[0-9]*.rpm)"
  rpm -qp --requires "$packages"/dpi-devel-*.rpm | grep -xF "dpi-libs(aarch-64) = $full" >/dev/null
  rpm -qp --provides "$packages"/dpi-libs-*.rpm | grep -xF 'libdpi.so.1(DPI_1.2)(64bit)' >/dev/null
  if rpm -qp --requires "$packages"/*.rpm | grep -E 'GLIBC_2\.(3[5-9]|[4-9][0-9])|libstdc|x86'; then return 1; fi
  every_file "$root"
  scores "$root" "$root/usr/share/doc/dpi-devel/examples"
  samples "$root" "$root/usr/share/doc/dpi-devel/examples" usr/lib64
}

if every_file /usr/bin/env >/dev/null; then echo "a program of this machine passes for one of arm64"; exit 1; fi
debs
rpms
echo "arm64 under qemu-user: $(find "$packages" -name '*.deb' | wc -l) .debs, $(find "$packages" -name '*.rpm' | wc -l) .rpms"
