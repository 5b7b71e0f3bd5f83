#!/usr/bin/env bash
# The JAR for two processors, the wheel for arm64 and the Go module compiled for arm64, under qemu-user: arm64_bindings_test.sh RELEASE TREE SYSROOT.
# RELEASE is this machine's build with dpi_java (-DDPI_JAR_NATIVES=TREE/lib), dpi_go and dpi_program, TREE the cross-compiled one with dpi_jni,
# dpi_python_package, dpi_python_stable, score_csv and score_batch; SYSROOT has Debian's Python, numpy and Java of arm64. The wheel goes to TREE/wheel.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
release="$(cd "$1" && pwd -P)" tree="$(cd "$2" && pwd -P)" sysroot="$(cd "$3" && pwd -P)"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
export PYTHONDONTWRITEBYTECODE=1
model=weights/demo/adult_widedeep.h5 libraries="$sysroot/usr/lib/aarch64-linux-gnu"
on() { qemu-aarch64 -cpu max,pauth-impdef=on -L "$sysroot" -E LD_LIBRARY_PATH="$libraries:$libraries/blas:$libraries/lapack" "$@"; }
"$release/bin/dpi" predict "$model" weights/demo/adult_test.csv --raw >"$scratch/all.csv"
head -n 2001 weights/demo/adult_test.csv >"$scratch/rows.csv"
head -n 2001 "$scratch/all.csv" >"$scratch/scores.csv"  # this machine's

wheel() {
  local file site="$scratch/usr/lib/python3/dist-packages"
  rm -rf "$tree/wheel"
  file="$(bindings/python/build_wheel.sh "$tree")"
  case "$file" in */dpi-*-cp39-abi3-manylinux_2_34_aarch64.whl) ;; *) echo "the wheel is $file"; return 1 ;; esac
  /usr/bin/python3 tests/python/wheel_papers.py "$file"
  # pip takes it for such a machine, by its name, and for no other.
  pip_for() { /usr/bin/python3 -m pip install --quiet --root-user-action ignore --no-index --no-deps --only-binary :all: --python-version "$1" --platform "manylinux_2_34_$2" --target "$3" "$file"; }
  if pip_for 3.11 x86_64 "$scratch/other" 2>/dev/null; then echo "pip takes it on x86-64"; return 1; fi
  local version
  for version in 3.9 3.13; do pip_for $version aarch64 "$scratch/$version"; done
  pip_for 3.11 aarch64 "$site"
  DPI_BINARIES="$site/dpi/_native.abi3.so;$site/dpi/libdpi.so.1" /usr/bin/python3 tests/rules/run_rules.py binaries --root "$scratch" >"$scratch/rules" || { cat "$scratch/rules"; return 1; }
  PYTHONPATH="$site:$sysroot/usr/lib/python3/dist-packages" on "$sysroot/usr/bin/python3.11" -c "
import csv, platform, sys, numpy, dpi
assert platform.machine() == 'aarch64' and dpi.build_info()['path'].startswith(sys.argv[1])
with dpi.Model(sys.argv[2]) as model, open(sys.argv[3], newline='') as file:
    rows = list(csv.DictReader(file))
    got = model.predict_raw({name: [row[name] for row in rows] for name in rows[0]}, extra='ignore')
    wanted = numpy.loadtxt(sys.argv[4], skiprows=1, ndmin=2)
    assert got.shape == wanted.shape == (2000, 1) and numpy.all(numpy.abs(got - wanted) <= 1e-5), numpy.abs(got - wanted).max()
print(platform.machine(), len(rows), 'rows')" "$site" "$model" "$scratch/rows.csv" "$scratch/scores.csv"
  PYTHONPATH="$site:$sysroot/usr/lib/python3/dist-packages" on "$sysroot/usr/bin/python3.11" -m dpi "$model" | grep 'good on cpu'
}

archive() {
  local file version classes="$scratch/classes" said
  version="$(sed -n 's/^CMAKE_PROJECT_VERSION:[A-Z]*=//p' "$release/CMakeCache.txt")"
  file="$release/java/dpi-$version.jar"
  /usr/bin/python3 tests/install/jar_test.py "$release" "$file"
  jar --list --file "$file" | grep -c '^dpi/native/linux-\(x86_64\|aarch64\)/libdpi\(_jni\.so\|\.so\.1\)$' | grep -x 4
  javac -d "$classes" -cp "$file" samples/java/Score.java
  # One JAR on both: each takes its own libraries out of it.
  local java=(-Ddpi.native.extractDir="$scratch/native" -cp "$classes:$file" Score "$model")
  java "${java[@]}" >"$scratch/here"
  on "$sysroot/usr/lib/jvm/java-17-openjdk-arm64/bin/java" -Xshare:off "${java[@]}" >"$scratch/there"
  grep '^row 1: ' "$scratch/here"
  diff "$scratch/here" "$scratch/there"
  # Without the libraries of its processor it names those that it has.
  /usr/bin/python3 -c 'import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as old, zipfile.ZipFile(sys.argv[2], "w") as new:
    for entry in old.infolist():
        if "linux-aarch64/" not in entry.filename: new.writestr(entry, old.read(entry))' "$file" "$scratch/one.jar"
  if said="$(on "$sysroot/usr/lib/jvm/java-17-openjdk-arm64/bin/java" -Xshare:off "${java[@]/$file/$scratch/one.jar}" 2>&1)"; then echo "a JAR without its libraries loads"; return 1; fi
  grep 'x86_64' <<<"$said"
}

# emulated NAME FILE: $scratch/bin/NAME runs FILE. Its name is what the program knows as its own, so that a test can start itself again.
emulated() {
  mkdir -p "$(dirname "$scratch/bin/$1")"
  printf '#!/bin/sh\nexec qemu-aarch64 -cpu max,pauth-impdef=on -0 "$0" -L %q %q "$@"\n' "$sysroot" "$2" >"$scratch/bin/$1"
  chmod +x "$scratch/bin/$1"
}

# The module is source, the same for every processor: here its tests, the samples and the service are compiled for arm64.
go_module() {
  local module="$release/go/bindings/go" samples="$release/go/samples/go" name
  export GOARCH=arm64 CGO_ENABLED=1 CC=aarch64-linux-gnu-gcc PKG_CONFIG_PATH="$tree/pkgconfig" GOFLAGS=-mod=readonly GOPROXY=off DPI_ROOT="$PWD" DPI_BIN="$scratch/bin"
  aarch64-linux-gnu-gcc -Icapi/include tests/bindings/reference_scores.c -o "$scratch/reference_scores" -L"$tree/lib" -ldpi -Wl,-rpath,"$tree/lib"
  emulated tests/reference_scores "$scratch/reference_scores"
  emulated score_csv "$tree/bin/score_csv"
  (cd "$module" && go test -c -o "$scratch/module" .)
  readelf -h "$scratch/module" | grep 'Machine: *AArch64' >/dev/null
  emulated module "$scratch/module"
  (cd "$module" && "$scratch/bin/module" -test.short -test.v) >"$scratch/go" || { grep -v '^=== RUN' "$scratch/go" | tail -n 60; return 1; }
  echo "go test for arm64: $(grep -c '^--- PASS' "$scratch/go") passed, $(grep -c '^--- SKIP' "$scratch/go") skipped"
  grep '^--- SKIP' "$scratch/go"  # those of the emulated GPU
  for name in smallest scoreservice; do
    (cd "$samples" && go build -o "$scratch/$name" "./$name")
    emulated "$name" "$scratch/$name"
  done
  emulated score_batch "$tree/bin/score_batch"
  "$scratch/bin/smallest" "$model" >"$scratch/there"
  "$scratch/bin/score_batch" "$model" | diff - "$scratch/there"
  DPI_TEST_SERVICE="$scratch/bin/scoreservice" /usr/bin/python3 -m pytest -q -p no:cacheprovider tests/bindings/services
}

wheel
archive
go_module
echo "arm64 under qemu-user: $(basename "$tree"/wheel/*.whl), one JAR for two processors, the Go module"
