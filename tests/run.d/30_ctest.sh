# All C and C++ tests of the release build.
# An area whose tests were left out (a package not found, an option) would not be missed in a sum.
no_area_is_empty() {
  local area listed
  for area in $(areas); do
    listed="$(ctest --test-dir "$BUILD/release" -N -L "^$area\$")"  # whole: grep -q would end a pipe early, and pipefail call that a failure
    grep -q '^Total Tests: [1-9]' <<<"$listed" || { echo "tests/$area has no test in build/release"; return 1; }
  done
}
check "every area has tests" no_area_is_empty
[ "$FULL" != 1 ] || export DPI_TEST_DELTAS=10000
run_ctest release -LE '^rules$'
