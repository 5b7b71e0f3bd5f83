# 500 times kill -9 at random moments of delta and store writes (every build runs 25).
# when: full
packages build test
check "500 kills of dpi delta apply, dpi store load and update: equal bits" \
  "$PYTHON" tests/store/update/kill_test.py "$BUILD/release/bin/dpi" "$BUILD/kills" 500
check "deaths between any two steps: equal bits" "$PYTHON" tests/store/update/crash_test.py "$BUILD/release/bin/dpi" \
  "$BUILD/release/lib/libtest_crash_at.so" "$BUILD/crashes" 100
