# Keras models through tf2onnx, and random ONNX graphs against ONNX Runtime.
# when: full
packages parity
log="$(mktemp)"
tests/parity/keras_onnx.sh >"$log" 2>&1
status=$?
cat "$log"
summary="$(tail -n 1 "$log")"
rm -f "$log"
if [[ $summary =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
  count "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" 0
fi
exit $status
