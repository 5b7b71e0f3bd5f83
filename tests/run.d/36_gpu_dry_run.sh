# Packs the GPU checks and runs them on the emulated device and PyTorch on the CPU.
packages build test parity bindings
configure release || exit 1
pack="$BUILD/gpu_pack" out="$BUILD/gpu_dry_run"
rm -rf "$out" "$pack"
options=(--build "$BUILD/release")
if [ -f "$BUILD/cuda/lib/dpi/backends-1/libdpi_cuda.so" ]; then options+=(--cuda "$BUILD/cuda"); else options+=(--without-cuda); fi
check "tests/gpu/pack.sh makes a pack under 50 MiB" tests/gpu/pack.sh "${options[@]}" "$pack"
[ -f "$pack/VERSION.json" ] || exit 1
# dry_run NAME COMMAND...: the whole log only if it fails.
dry_run() {
  local log status
  log="$(mktemp)"
  PYTHON="$PYTHON" "$@" >"$log" 2>&1
  status=$?
  if [ $status -ne 0 ] || [ "$FULL" = 1 ]; then cat "$log"; else sed -n '/^--- DRY RUN/,$p' "$log"; fi
  rm -f "$log"
  return $status
}
check "call A, dry run" dry_run "$pack/tests/gpu/validate.sh" A --dry-run --out "$out"
check "call B, dry run" dry_run "$pack/tests/gpu/validate.sh" B --dry-run --out "$out"
check "call C, dry run" dry_run "$pack/tests/gpu/validate.sh" C --dry-run --out "$out"
# What a visit starts first, what is no failure, what the numbers become; and what the limits of the calls would cut off.
check "stages: order, lateness, numbers" dry_run "$PYTHON" tests/gpu/stages_test.py "$pack/bin"
check "a visit at the estimated speed, nothing missing" dry_run "$PYTHON" tests/gpu/rehearse.py
check "nor if everything takes 1.2 times as long" dry_run "$PYTHON" tests/gpu/rehearse.py --slow 1.2
too_slow() { ! "$PYTHON" tests/gpu/rehearse.py --slow 3 >/dev/null; }
check "a rehearsal three times as slow misses something" too_slow
check "whole calls at the estimated speed, nothing missing" dry_run "$PYTHON" tests/gpu/rehearse.py --call A --call B --call C
if [ "$(id -u)" = 0 ]; then
  # Where there is nothing but libc, libstdc++ and a Python without torch: smoke.sh, rebuild_plugin.sh and with --full every stage.
  some=(--only A0 --only A1 --only B0 --only C0)
  [ "$FULL" = 0 ] || some=()
  check "the pack in a bare root" dry_run tests/gpu/bare_root.sh "$pack" "$BUILD/gpu_bare_root" "${some[@]}"
else
  # Without torch at least: what needs it is skipped.
  mkdir -p "$out/bare" && echo 'import sys; sys.modules["torch"] = None' >"$out/bare/sitecustomize.py"
  check "without torch, dry run of what uses it" dry_run env PYTHONPATH="$out/bare" "$pack/tests/gpu/validate.sh" B --dry-run \
    --only B0 --only B1 --only B2 --only B3 --out "$out/bare"
fi
# A visit of less time: stages of two calls in one, with limits of their own.
some_stages() {
  local log
  log="$(dry_run "$pack/tests/gpu/validate.sh" AC --dry-run --seconds 300 --only A0=40 --only C0 --out "$out/some")" || return 1
  grep -q '^A0 .*passed' <<<"$log" && grep -q '^C0 .*passed' <<<"$log" && ! grep -qE '^(A[1-9]|C[1-9]) ' <<<"$log"
}
check "stages of two calls in one" some_stages
check "smoke.sh, dry run of its first stages" dry_run "$pack/tests/gpu/smoke.sh" --dry-run --only A0 --only A1 --out "$out/smoke"
check "report.py on a dry run's results" "$PYTHON" tests/gpu/report.py "$out/results.jsonl" --out "$out/report"
# A stage that breaks must show.
check "a broken stage fails the dry run" "$PYTHON" tests/gpu/break_a_stage.py "$pack" "$out/broken"
