# Importers and engine against FuxiCTR and DeepCTR-Torch; what SUPPORT.md says of them.
packages parity
log="$(mktemp)"
# A few lines of the table and every failure; the whole table with --full.
tests/parity/run.sh >"$log" 2>&1
status=$?
if [ "$FULL" = 1 ] || [ $status -ne 0 ]; then cat "$log"; else grep -E '^(engine|FAIL|skipped)|passed,| s$' "$log"; fi
if [ $status -eq 3 ]; then
  echo "the libraries cannot be installed here, so nothing was compared: a failure (--skip parity leaves the stage out)"
  exit 1
fi
count_summary tests/parity/run.sh "$log"
# SUPPORT.md counts every setting, whatever an ordinary run takes.
recorded="$(mktemp)"
FULL=1 "$PYTHON" tests/e2e/recorded/recorded_test.py "$BUILD/release" --table >"$recorded" || cat "$recorded"
if [ -f "$RUN/python.xml" ]; then
  check "SUPPORT.md is what the tests said" "$PYTHON" tests/parity/support_matrix.py --check --junit "$RUN/python.xml" --parity "$log" --recorded "$recorded"
else
  echo "the stage python did not run, so SUPPORT.md was not compared"
  count 0 0 1
fi
rm -f "$log" "$recorded"
exit $status
