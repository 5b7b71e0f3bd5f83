# Python: the package dpi on all bundles, the wheel, the exporter's check by the engine, the sample.
packages build test parity bindings
# SWIG 4.2 or later makes the wheel's extension; Debian 12's is older, so it comes from PyPI.
swig="$(packaging/swig.sh "$BUILD/swig")" || { swig=""; echo "skipped: the wheel for every Python: no SWIG 4.2 or later"; count 0 0 1; }
stable=(${swig:+dpi_python_stable})
configure release -DDPI_STABLE_SWIG="$swig" && build release dpi_python_package "${stable[@]}" dpi_cuda_emu score_csv score_batch reference_scores || exit 1
export DPI_PYTHON="$BUILD/release/python" DPI_BIN="$BUILD/release/bin"
[ "$FULL" != 1 ] || export DPI_TEST_KILLS=500
run_pytest tests/python
# RankMixer, Wukong, OneTrans, LONGER and MTGR, narrow: PyTorch, numpy and every device.
OMP_NUM_THREADS=1 run_pytest tests/bench/zoo/models_2026_test.py
# Tiny tables; it ends at the first score that differs between tiers.
tiers() {
  build release disk_bench && PYTHONPATH="$DPI_PYTHON:$ROOT/weights/python" PYTHONDONTWRITEBYTECODE=1 \
    "$PYTHON" tests/bench/tiers_bench.py --build "$BUILD/release" --smoke --only hits,disk,stages,threshold,torch
}
check "the benchmark of the tiers, and that all of them give the same scores" tiers
peers() {
  PYTHONDONTWRITEBYTECODE=1 "$PYTHON" -W ignore tests/bench/peers/compare.py --build "$BUILD/release" --smoke --engines dpi dpi-bf16 torch script
}
check "the comparison with other engines, as far as Debian has them, and that all give the formulas' scores" peers
updates() {
  build release endpoint_update_bench && PYTHONDONTWRITEBYTECODE=1 "$PYTHON" tests/bench/endpoint_update.py --build "$BUILD/release" --smoke
}
check "the benchmark of callers while updates are loaded" updates
zoo() { PYTHONDONTWRITEBYTECODE=1 "$PYTHON" -W ignore tests/bench/zoo_bench.py --build "$BUILD/release" --smoke; }
check "models of the zoo give PyTorch's scores at their full width" zoo
zoo_plans() { PYTHONDONTWRITEBYTECODE=1 "$PYTHON" tests/bench/zoo/plans_test.py "$BUILD/release"; }
check "their plans are the recorded ones, and branches have streams" zoo_plans
# All ten periods and seeds of the demo whose short form test_fresh_demo.py runs; the last result is in the demo's README.
fresh() {
  local work status=0
  work="$(mktemp -d)"
  PYTHONDONTWRITEBYTECODE=1 "$PYTHON" weights/training/fresh_bank.py train --out "$work" --program "$DPI_BIN/dpi" --package "$DPI_PYTHON" || status=1
  rm -rf "$work"
  return $status
}
[ "$FULL" != 1 ] || check "a model that is kept fresh: 91 versions, fed into an endpoint that serves" fresh
wrapper="$BUILD/release/bindings/python/native_wrap.c"
headers="$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("include"))')"
# The generated functions leave `self` and the status unused.
without_warning() {  # FILE [OPTION]
  gcc -fsyntax-only -Wall -Wextra -Wno-unused-parameter -Wno-unused-but-set-variable -Wno-missing-field-initializers -Wno-cast-function-type -Werror \
    -fno-strict-aliasing -Icapi/include -Ibindings -isystem "$headers" "${@:2}" "$1"
}
check "the C wrapper compiles without a warning" without_warning "$wrapper"
only_init() {
  local symbols
  symbols="$(nm -D --defined-only "$1")" && [ -n "$symbols" ] && ! grep -v ' PyInit__native$' <<<"$symbols"
}
check "the extension exports its entry only" only_init "$(echo "$DPI_PYTHON"/dpi/_native.*.so)"
if [ -n "$swig" ]; then
  check "the wheel's C wrapper compiles without a warning" without_warning "$(dirname "$wrapper")/stable/native_wrap.c" -DPy_LIMITED_API=0x03090000
  check "the wheel's extension exports its entry only" only_init "$BUILD/release/python_stable/_native.abi3.so"
fi
installed() {
  local work status=0
  work="$(mktemp -d)"
  { cmake --install "$BUILD/release" --prefix "$work" --component python >/dev/null &&
    diff <(cd "$work/lib/python3/dist-packages" && find . -type f | sort) \
         <(cd "$DPI_PYTHON" && find . -type f -not -path '*/__pycache__/*' | sort) &&
    ! readelf -dW "$work"/lib/python3/dist-packages/dpi/_native.*.so | grep -E 'RUNPATH|RPATH' &&
    LD_LIBRARY_PATH="$BUILD/release/lib" PYTHONPATH="$work/lib/python3/dist-packages" "$PYTHON" -m dpi weights/demo/bank_dcnv2.h5; } || status=1
  rm -rf "$work"
  return $status
}
check "cmake --install --component python writes the package without library and RUNPATH" installed
check "the wheel" tests/python/wheel_test.sh "$BUILD/release"
[ "$FULL" != 1 ] || [ -z "$swig" ] || check "the wheel under the Pythons of Debian 11 and 13" tests/python/wheels_test.sh "$BUILD/release" "$BUILD"
exit 0
