# kill -9 at random moments of delta and store writes, 500 times; 25 of them are among the tests of every build.
# when: full
packages build test
check "500 kills of dpi delta apply, dpi store load and update: equal bits" \
  "$PYTHON" tests/store/update/kill_test.py "$BUILD/release/bin/dpi" "$BUILD/kills" 500
check "deaths between any two steps: equal bits" "$PYTHON" tests/store/update/crash_test.py "$BUILD/release/bin/dpi" \
  "$BUILD/release/lib/libtest_crash_at.so" "$BUILD/crashes" 100
