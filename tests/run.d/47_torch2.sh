# The importers with PyTorch 2, which most users have: from_torch, from_onnx, both libraries, torchrec; what SUPPORT.md says of them.
# ahead: tests/parity/torch2.sh --install
packages parity
log="$(mktemp)"
tests/parity/torch2.sh >"$log" 2>&1
status=$?
if [ "$FULL" = 1 ] || [ $status -ne 0 ]; then cat "$log"; else grep -E '^(torch|FAIL|skipped|installed)|passed,| s$' "$log"; fi
if [ $status -eq 3 ]; then
  rm -f "$log"
  echo "SKIPPED: nothing was tested with PyTorch 2, for it cannot be installed without the network"
  count 0 0 1
  exit 0
fi
count_summary tests/parity/torch2.sh "$log"
[ $status -ne 0 ] || check "SUPPORT.md is what the tests said of PyTorch 2" "$PYTHON" tests/parity/support_matrix.py --check --torch2 "$log" || status=1
rm -f "$log"
# Operators and traps one at a time, roundings ahead of a decision, bounds and refusals of a trace, marks of encoders: each version of PyTorch has its own.
files=(sweep jumps rests bounded_exports row_picks unknown_is_padding wrapped_models encoder_marks encoder_arguments)
files=("${files[@]/#/weights/python/tests/test_}")
OMP_NUM_THREADS=1 PYTHON="$(tests/parity/torch2.sh --install)" run_pytest "${files[@]/%/.py}" || status=1
exit $status
