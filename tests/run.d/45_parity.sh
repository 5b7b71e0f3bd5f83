# Importers and engine against FuxiCTR and DeepCTR-Torch; what SUPPORT.md says of them. With --full also newer torch and torchrec.
# minutes: 8
packages parity
log="$(mktemp)"
# counted NAME LOG STATUS: adds what the log's last line counts; status 3 says that the libraries cannot be installed.
counted() {
  local summary
  summary="$(tail -n 1 "$2")"
  if [ "$3" -eq 3 ]; then
    echo "the libraries cannot be installed here, so nothing was compared: a failure (--skip parity leaves the stage out)"
    exit 1
  fi
  if [[ $summary =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed(,\ ([0-9]+)\ skipped)?$ ]]; then
    count "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" "${BASH_REMATCH[4]:-0}"
  else
    echo "$1 printed no count"
    count 0 1 0
  fi
}
# A few lines of the table and every failure; the whole table with --full.
tests/parity/run.sh >"$log" 2>&1
status=$?
if [ "$FULL" = 1 ] || [ $status -ne 0 ]; then cat "$log"; else grep -E '^(engine|FAIL|skipped)|passed,| s$' "$log"; fi
counted tests/parity/run.sh "$log" $status
recorded="$(mktemp)"
"$PYTHON" tests/e2e/recorded/recorded_test.py "$BUILD/release" --table >"$recorded" || cat "$recorded"
matrix=(--check --junit "$RUN/python.xml" --parity "$log" --recorded "$recorded")
if [ "$FULL" = 1 ]; then
  newer="$(mktemp)"
  tests/parity/torch2.sh >"$newer" 2>&1
  second=$?
  cat "$newer"
  counted tests/parity/torch2.sh "$newer" $second
  matrix+=(--torch2 "$newer")
  [ $second -eq 0 ] || status=$second
fi
if [ -f "$RUN/python.xml" ]; then
  check "SUPPORT.md is what the tests said" "$PYTHON" tests/parity/support_matrix.py "${matrix[@]}"
else
  echo "the stage python did not run, so SUPPORT.md was not compared"
  count 0 0 1
fi
rm -f "$log" "$recorded" "${newer:-}"
exit $status
