# shellcheck shell=bash
# Helpers for the stages of tests/run.sh; see its head.

essential() { :; }  # a mark that run.sh looks for

count() { echo "$1 $2 $3" >>"$COUNTS"; }

packages() { packaging/setup.sh "$@"; }

# check NAME COMMAND...: one test, passed if the command succeeds.
check() {
  local name="$1"
  shift
  if "$@"; then
    echo "passed: $name"
    count 1 0 0
  else
    echo "FAILED: $name"
    count 0 1 0
  fi
}

# configure PRESET [cmake arguments]: with ccache if the machine has it.
configure() {
  local preset="$1" launcher=()
  shift
  if command -v ccache >/dev/null; then
    launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  fi
  cmake --preset "$preset" --log-level=NOTICE -DDPI_CUDA=OFF "${launcher[@]}" "$@"
}

# build PRESET [TARGET...]: says which targets the tree does not have instead of failing on them.
build() {
  local preset="$1" target known targets=()
  shift
  known="$(ninja -C "$BUILD/$preset" -t targets all | sed 's/: .*//')" || return 1
  for target in "$@"; do
    grep -qx "$target" <<<"$known" && targets+=("$target")
  done
  [ $# -eq 0 ] || [ ${#targets[@]} -gt 0 ] || return 0
  # A file as output: ninja prints every step there, so the log shows progress.
  ninja -C "$BUILD/$preset" -j "$JOBS" "${targets[@]}" | tail_steps
}

# Every 25th step, and everything that is not a step (warnings, errors).
tail_steps() {
  awk '/^\[[0-9]+\/[0-9]+\]/ { split(substr($1, 2), n, /[\/\]]/); if (n[1] % 25 == 0 || n[1] == n[2]) print; next } { print; fflush() }'
}

# run_ctest PRESET [ctest arguments]: runs and counts.
run_ctest() {
  local preset="$1" report status
  shift
  report="$(mktemp)"
  ctest --test-dir "$BUILD/$preset" -j "$JOBS" --output-on-failure --no-tests=ignore --output-junit "$report" "$@"
  status=$?
  count_junit "$report" "$status"
  rm -f "$report"
}

# run_pytest PATH...: runs and counts; a tree without tests counts nothing.
run_pytest() {
  local report status
  report="$(mktemp)"
  # A folder of our own in place of a user's site: only Debian's packages and weights/python are seen.
  PYTHONPATH="$ROOT/weights/python${PYTHONPATH:+:$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1 \
    "$PYTHON" -m pytest -q -p no:cacheprovider --import-mode=importlib --durations=5 --junitxml="$report" "$@"
  status=$?
  [ $status -eq 5 ] && status=0
  count_junit "$report" "$status"
  rm -f "$report"
}

# Sums the test suites of a JUnit file. A runner that failed without a failed test in its report counts as one failure.
count_junit() {
  "$PYTHON" - "$1" "$2" >>"$COUNTS" <<'PY'
import sys
import xml.etree.ElementTree as tree

path, status = sys.argv[1], int(sys.argv[2])
total = failed = skipped = 0
try:
    root = tree.parse(path).getroot()
    for suite in [root] if root.tag == "testsuite" else root.iter("testsuite"):
        total += int(suite.get("tests", 0))
        failed += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped += int(suite.get("skipped", 0)) + int(suite.get("disabled", 0))
except (OSError, tree.ParseError):
    status = status or 1
if status and not failed:
    failed, total = 1, total + 1
print(total - failed - skipped, failed, skipped)
PY
}
