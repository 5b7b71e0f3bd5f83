# Every single allocation, read, open, thread and device call fails once, on every bundle.
# when: full
for device in ref cpu cuda_emu; do
  check "injections on $device" "$BUILD/release/bin/tests/injection_test" --device="$device" --full
done
