#!/usr/bin/env bash
# Runs a copy of tests/run.sh on planted stages: what ran nothing must not pass, and a signal ends the run.
set -uo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
bad=0

# planted NAME=BODY...: a tree with these stages.
planted() {
  local stage number=10
  rm -rf "$scratch/tree"
  mkdir -p "$scratch/tree/tests/run.d" "$scratch/tree/tests/plan"
  cp "$root/tests/run.sh" "$scratch/tree/tests/"
  cp "$root/tests/run.d/lib.sh" "$root/tests/run.d/configure.sh" "$scratch/tree/tests/run.d/"
  for stage in "$@"; do
    printf '# A planted stage.\n%s\n' "${stage#*=}" >"$scratch/tree/tests/run.d/${number}_${stage%%=*}.sh"
    number=$((number + 1))
  done
}

# expect ABOUT STATUS TEXT [arguments]: the planted run ends with STATUS and prints TEXT, an extended regular expression.
expect() {
  local about="$1" want="$2" text="$3" got
  shift 3
  "$scratch/tree/tests/run.sh" "$@" >"$scratch/log" 2>&1
  got=$?
  if [ $got -ne "$want" ] || ! grep -qE "$text" "$scratch/log"; then
    echo "FAILED: $about: exit status $got, expected $want and '$text' in:"
    sed 's/^/    /' "$scratch/log"
    bad=1
  fi
}

planted 'one=count 3 0 1' 'two=check "is true" true'
expect "counts add up" 0 '^4 passed, 0 failed, 1 skipped$'
expect "a stage alone" 0 '^1 passed, 0 failed, 0 skipped$' --only two
expect "an unknown name" 2 "no stage 'three'" --only three

# `--only NAME` finds stages first: an area of the same name could not be run alone.
list="$("$root/tests/run.sh" --list)"
stages="$(sed -n 's/^  \([a-z_0-9]*\) .*/\1/p' <<<"$list")"
for area in $(sed -n 's/^areas, for --only: //p' <<<"$list"); do
  ! grep -qx "$area" <<<"$stages" || { echo "FAILED: '$area' is a stage and an area"; bad=1; }
done
[ "$(wc -w <<<"$stages")" -gt 10 ] || { echo "FAILED: no stages are listed"; bad=1; }

planted 'one=count 1 0 0' 'two=true'
expect "a stage that ran nothing" 1 '^1 passed, 1 failed, 0 skipped$'
planted 'one=count 0 0 5'
expect "skipped is not ok" 1 '^  one +skipped .*, 5 skipped'
planted 'one=count 1 0 0; false'
expect "a status without a count" 1 '^1 passed, 1 failed, 0 skipped$'
planted 'one=check "is false" false; count 1 0 0'
expect "a failed check" 1 '^1 passed, 1 failed, 0 skipped$'
planted $'one=essential\ncount 0 1 0' 'two=count 1 0 0'
expect "an essential stage ends the run" 1 '^0 passed, 1 failed, 0 skipped$'
planted 'one=count 1 0 0' $'two=# minutes: 30\ncount 2 0 0' 'three=count 4 0 0'
expect "all fits" 0 '^7 passed, 0 failed, 0 skipped$' --within 60
expect "a stage that would not end in time" 0 '^5 passed, 0 failed, 1 skipped$' --within 20
expect "it is said" 0 '^  two +left out: it may take 30 minutes, and (19|20) of 20 were left$' --within 20
expect "nothing fits" 1 '^0 passed, 0 failed, 3 skipped$' --within 1
expect "no limit" 0 '^7 passed, 0 failed, 0 skipped$'
expect "a limit that is no number" 2 "needs minutes, not 'soon'" --within soon
planted 'one=packages no_such_group; count 1 0 0'
mkdir -p "$scratch/tree/packaging"
cp "$root/packaging/setup.sh" "$scratch/tree/packaging/"
expect "packages that cannot be had" 1 '^0 passed, 1 failed, 0 skipped$'

# No test, no report, no interpreter.
planted 'one=run_ctest release -L nothing'
mkdir -p "$scratch/tree/build/release"
echo >"$scratch/tree/build/release/CTestTestfile.cmake"
expect "ctest without a test" 1 '^0 passed, 1 failed, 0 skipped$'
planted 'one=mkdir empty; run_pytest empty'
expect "pytest without a test" 1 '^0 passed, 1 failed, 0 skipped$'
planted 'one=echo "<testsuite tests=\"0\"/>" >report; count_junit report 0'
expect "a report without a test" 1 '^0 passed, 1 failed, 0 skipped$'
planted 'one=PYTHON=/nowhere/python3; run_ctest release'
expect "no python3 to read the report" 1 '^0 passed, 1 failed, 0 skipped$'

# Ctrl-C reaches the whole process group, SIGTERM the script alone; the stage's program here ignores neither.
for signal in INT TERM; do
  planted 'one=echo started; sleep 300; count 1 0 0' 'two=echo second >"$ROOT/second"; count 1 0 0'
  : >"$scratch/log"  # the last run's says "started" too
  setsid env --default-signal=INT "$scratch/tree/tests/run.sh" >"$scratch/log" 2>&1 &
  pid=$!
  for _ in $(seq 600); do grep -q started "$scratch/log" && break; sleep 0.1; done
  started=$SECONDS
  if [ $signal = INT ]; then kill -INT -- "-$pid"; else kill -TERM "$pid"; fi
  wait "$pid"
  status=$?
  if [ $status -ne 130 ] || [ $((SECONDS - started)) -gt 60 ] || [ -e "$scratch/tree/second" ] ||
    ! grep -q '^0 passed, 1 failed, 0 skipped$' "$scratch/log" || kill -0 -- "-$pid" 2>/dev/null; then
    echo "FAILED: SIG$signal: exit status $status, expected 130 soon, no second stage and no process left:"
    sed 's/^/    /' "$scratch/log"
    bad=1
  fi
done
exit $bad
