# shellcheck shell=bash
# Helpers for the stages of tests/run.sh; see its head.

essential() { :; }  # a mark that run.sh looks for

trap 'exit 130' INT
trap 'exit 143' TERM

. tests/run.d/configure.sh

# The sanitizers' stacks have names with it; it is on no PATH.
export ASAN_SYMBOLIZER_PATH=/usr/lib/llvm-19/bin/llvm-symbolizer TSAN_SYMBOLIZER_PATH=/usr/lib/llvm-19/bin/llvm-symbolizer

count() { echo "$1 $2 $3" >>"$COUNTS"; }

# packages GROUP...: the stage cannot go on without them.
packages() { packaging/setup.sh "$@" || exit 1; }

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
    return 1
  fi
}

# count_summary NAME LOG: adds what the log's last line counts, "N passed, N failed" and perhaps "N skipped".
count_summary() {
  local summary
  summary="$(tail -n 1 "$2")"
  if [[ $summary =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed(,\ ([0-9]+)\ skipped)?$ ]]; then
    count "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" "${BASH_REMATCH[4]:-0}"
  else
    echo "$1 printed no count"
    count 0 1 0
  fi
}

# build PRESET [TARGET...]: a target that the tree does not have is an error.
build() {
  local preset="$1"
  shift
  # A pipe as output: ninja prints every step there, so the log shows progress.
  ninja -C "$BUILD/$preset" -j "$JOBS" "$@" | tail_steps
}

# Every 25th step, and everything that is not a step (warnings, errors).
tail_steps() {
  awk '/^\[[0-9]+\/[0-9]+\]/ { split(substr($1, 2), n, /[\/\]]/); if (n[1] % 25 == 0 || n[1] == n[2]) print; next } { print; fflush() }'
}

# run_ctest PRESET [ctest arguments]: runs and counts; arguments that choose no test are a failure. One test more than there are jobs runs
# at a time: many wait, for threads of their own, for servers, for a disk.
run_ctest() {
  local preset="$1" report status
  shift
  report="$(mktemp)"
  ctest --test-dir "$BUILD/$preset" -j "$((JOBS + 1))" --output-on-failure --no-tests=error --output-junit "$report" "$@"
  status=$?
  count_junit "$report" "$status"
  rm -f "$report"
}

# run_pytest PATH...: runs and counts; the report stays at REPORT, if that is set.
run_pytest() {
  local report status
  report="${REPORT:-$(mktemp)}"
  # A folder of our own in place of a user's site: only Debian's packages and weights/python are seen.
  PYTHONPATH="$ROOT/weights/python${PYTHONPATH:+:$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1 \
    "$PYTHON" -m pytest -q -p no:cacheprovider --import-mode=importlib --durations=5 --junitxml="$report" "$@"
  status=$?
  count_junit "$report" "$status"
  [ -n "${REPORT:-}" ] || rm -f "$report"
}

# Sums the test suites of a JUnit file. A runner that failed without a failed test in its report counts as one failure, and so
# does a report without a test, or one that cannot be read.
count_junit() {
  "$PYTHON" - "$1" "$2" >>"$COUNTS" <<'PY' || { echo "the report $1 cannot be read"; count 0 1 0; }
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
if not failed and (status or not total):
    failed, total = 1, total + 1
print(total - failed - skipped, failed, skipped)
PY
}
