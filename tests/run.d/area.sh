# One area of the C and C++ tests, for `tests/run.sh --only AREA`; not a stage of its own.
configure release || exit 1
build release "dpi_tests_$AREA" || exit 1
run_ctest release -L "^$AREA\$"
