# Importers and engine against FuxiCTR and DeepCTR-Torch.
packages parity
log="$(mktemp)"
# A few lines of the table and every failure; the whole table with --full.
tests/parity/run.sh >"$log" 2>&1
status=$?
if [ "$FULL" = 1 ] || [ $status -ne 0 ]; then cat "$log"; else grep -E '^(engine|FAIL)|passed,| s$' "$log"; fi
summary="$(tail -n 1 "$log")"
rm -f "$log"
if [ $status -eq 3 ]; then
  echo "the libraries cannot be installed here, so nothing was compared: a failure (--skip parity leaves the stage out)"
  exit 1
fi
if [[ $summary =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
  count "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" 0
fi
exit $status
