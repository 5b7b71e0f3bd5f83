# One area of the C and C++ tests, for `tests/run.sh --only AREA`; not a stage of its own.
configure release || exit 1
targets=("dpi_tests_$AREA")
# An area of commands only: what they look at.
ninja -C "$BUILD/release" -t query "dpi_tests_$AREA" >/dev/null 2>&1 || targets=(dpi)
build release "${targets[@]}" || exit 1
run_ctest release -L "^$AREA\$"
