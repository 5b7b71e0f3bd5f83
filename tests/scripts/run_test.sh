#!/usr/bin/env bash
# Runs a copy of tests/run.sh on planted stages: what ran nothing must not pass, which stages run, times, and a signal ends the run.
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
  cp "$root/tests/run.d/"{lib,configure,times,beside}.sh "$scratch/tree/tests/run.d/"
  for stage in "$@"; do
    printf '# A planted stage.\n%s\n' "${stage#*=}" >"$scratch/tree/tests/run.d/${number}_${stage%%=*}.sh"
    number=$((number + 1))
  done
}

# table ROW...: the planted tree's tests/README.md, with these rows of stages between two others of the same names.
table() {
  local other='| `two` | a folder | 99.0 | 99.0 | 99.0 | 99.0 | |'
  { printf 'Before.\n%s\n<!-- stages: begin -->\n' "$other"; printf '%s\n' "$@"; printf '<!-- stages: end -->\n%s\nBehind.\n' "$other"; } \
    >"$scratch/tree/tests/README.md"
}

# expect_table ABOUT TEXT: the planted table has a line TEXT, an extended regular expression.
expect_table() {
  grep -qE "$2" "$scratch/tree/tests/README.md" && return
  echo "FAILED: $1: no line '$2' in:"
  sed 's/^/    /' "$scratch/tree/tests/README.md"
  bad=1
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

# What a stage has to download begins after the first stage; it is ended with the run.
planted 'one=count 1 0 0' 'two=for i in {1..100}; do [ ! -e fetched ] || break; sleep 0.1; done; check "is there" test -e fetched' \
  $'three=# ahead: touch fetched\ncount 1 0 0'
expect "a download ahead" 0 '^3 passed, 0 failed, 0 skipped$'
planted 'one=count 1 0 0' $'three=# ahead: touch fetched\ncount 1 0 0'
expect "a stage that is left out downloads nothing" 0 '^1 passed, 0 failed, 0 skipped$' --skip three
[ ! -e "$scratch/tree/fetched" ] || { echo "FAILED: a stage that is left out has downloaded"; bad=1; }
planted 'one=count 1 0 0' $'three=# ahead: echo $$ >process; exec sleep 600\nfor i in {1..100}; do [ ! -s process ] || break; sleep 0.1; done; count 1 0 0'
expect "a download that goes on" 0 '^2 passed, 0 failed, 0 skipped$'
sleep 0.2
! kill -0 "$(cat "$scratch/tree/process")" 2>/dev/null || { echo "FAILED: a download goes on after the run"; bad=1; }

# The second lane: `two` and `three` end only if they run at the same time, and `six` waits for `five` of the lane, which has a smaller number.
meet='for i in {1..200}; do [ ! -e "$ROOT/$THERE" ] || break; sleep 0.1; done; check "both run" test -e "$ROOT/$THERE"'
planted 'one=count 1 0 0' "three=touch \"\$ROOT/b\"; THERE=a; $meet" \
  $'two=# beside: yes\ntouch "$ROOT/a"; THERE=b; echo words of two; count 0 0 2; '"$meet" \
  $'five=# beside: yes\nsleep 1; touch "$ROOT/c"; count 1 0 0' 'six=check "after five" test -e "$ROOT/c"' $'seven=# beside: yes\ncount 4 0 0'
table '| `five` | A planted stage. | 0.0 | | | | |'
expect "two stages at a time" 0 '^9 passed, 0 failed, 2 skipped$' --times cold
grep -qx "words of two" "$scratch/log" && grep -qE '^  two +ok +[0-9]+ s +1 passed, 2 skipped$' "$scratch/log" ||
  { echo "FAILED: the lane's output and summary:"; cat "$scratch/log"; bad=1; }
for name in two five six seven; do expect_table "times of the lane" "^\| \`$name\` .* cold $(date +%F)"; done
expect "a stage of the lane alone" 0 '^4 passed, 0 failed, 0 skipped$' --only seven
! grep -q "begins beside" "$scratch/log" || { echo "FAILED: --only needs no lane"; bad=1; }
planted 'one=count 1 0 0' 'two=count 1 0 0' $'three=# beside: yes\ncount 1 1 0'
expect "a failure in the lane" 1 '^3 passed, 1 failed, 0 skipped$'
planted 'one=count 1 0 0' 'two=count 1 0 0' $'three=# beside: yes\ntrue'
expect "a stage of the lane that ran nothing" 1 '^2 passed, 1 failed, 0 skipped$'
planted 'one=count 1 0 0' $'two=# beside: yes\nkill -9 $(cat "$RUN/lane"); exit 0' 'three=count 1 0 0'
expect "a lane that is killed" 1 '^  two +FAILED: its process ended without a result$'
planted 'one=count 1 0 0' $'two=# beside: yes\ncount 1 0 0' 'three=count 1 0 0'
table '| `two` | A planted stage. | 86.0 | | | | |'
expect "a stage of the lane that does not fit" 0 '^  two +left out: it may take 86 minutes' --within 85
planted 'one=count 1 0 0' $'two=essential\nfor i in {1..100}; do [ ! -s "$ROOT/process" ] || break; sleep 0.1; done; false' \
  $'three=# beside: yes\necho $$ >"$ROOT/process"; sleep 600'
expect "the lane ends with the run" 1 '^1 passed, 1 failed, 0 skipped$'
sleep 0.2
! kill -0 "$(cat "$scratch/tree/process")" 2>/dev/null || { echo "FAILED: the lane goes on after the run"; bad=1; }

# Which stages run. `when` of a body is its second line.
planted 'one=count 1 0 0' $'two=# when: sanitizers\ncount 2 0 0' $'three=# when: full\ncount 4 0 0' $'four=# when: always\ncount 8 0 0'
expect "neither sanitizers nor what is slow" 0 '^9 passed, 0 failed, 0 skipped$'
expect "--sanitizers" 0 '^11 passed, 0 failed, 0 skipped$' --sanitizers
expect "--full has the sanitizers" 0 '^15 passed, 0 failed, 0 skipped$' --full
expect "--only needs no --sanitizers" 0 '^2 passed, 0 failed, 0 skipped$' --only two
expect "--skip leaves a sanitizer out" 0 '^9 passed, 0 failed, 0 skipped$' --sanitizers --skip two
expect "--list tells the sanitizers" 0 '^  two  .*\(--sanitizers\)$' --list
expect "--list tells what is slow" 0 '^  three .*\(--full\)$' --list
planted 'one=count 1 0 0' $'two=# when: sanitizer\ncount 2 0 0'
expect "a misspelt 'when' runs nothing" 2 "11_two.sh: '# when: sanitizer' is none of"
planted 'one=count 1 0 0' $'two=# when: sanitizers\ntrue'
expect "a sanitizer's stage that ran nothing" 1 '^1 passed, 1 failed, 0 skipped$' --sanitizers
[ "$(sed -n 's/^  \([a-z_0-9]*\) .*(--sanitizers)$/\1/p' <<<"$list" | tr '\n' ' ')" = "asan bindings_asan tsan service_tsan " ] ||
  { echo "FAILED: the stages of --sanitizers are others"; bad=1; }

# What begins no more. A stage's minutes are the cold ones of the table: 30, more than 20, 5 without a row.
planted 'one=count 1 0 0' 'two=count 2 0 0' 'three=count 4 0 0' 'four=count 8 0 0'
table '| `two` | A planted stage. | 30.0 | 1.0 | | | |' '| `three` | A planted stage. | 20.1 | 1.0 | | | |' '| `four` | A planted stage. | | 50.0 | | | |'
expect "all fits" 0 '^15 passed, 0 failed, 0 skipped$' --within 60
expect "stages that would not end in time" 0 '^9 passed, 0 failed, 2 skipped$' --within 20
expect "it is said" 0 '^  two +left out: it may take 30 minutes, and (19|20) of 20 were left$' --within 20
expect "minutes are rounded up" 0 '^  three +left out: it may take 21 minutes' --within 20
expect "nothing fits" 1 '^0 passed, 0 failed, 4 skipped$' --within 1
expect "no limit" 0 '^15 passed, 0 failed, 0 skipped$'
expect "a limit that is no number" 2 "needs minutes, not 'soon'" --within soon
rm "$scratch/tree/tests/README.md"
expect "no table: 5 minutes each" 0 '^15 passed, 0 failed, 0 skipped$' --within 6
expect "no table: 5 minutes each, which do not fit" 1 '^  one +left out: it may take 5 minutes' --within 4

# What .ci/run runs.
planted 'one=count 1 0 0' $'two=# when: sanitizers\ncount 2 0 0' $'three=# when: sanitizers\ncount 4 0 0' $'four=# when: full\ncount 8 0 0'
table '| `two` | A planted stage. | 86.0 | | | | |' '| `three` | A planted stage. | 80.0 | | | | |'
mkdir "$scratch/tree/.ci"
cp "$root/.ci/run" "$scratch/tree/.ci/"
"$scratch/tree/.ci/run" >"$scratch/log" 2>&1
grep -qx '5 passed, 0 failed, 1 skipped' "$scratch/log" && grep -qE '^  two +left out: .* of 85 were left$' "$scratch/log" ||
  { echo "FAILED: .ci/run runs the sanitizers within 85 minutes:"; cat "$scratch/log"; bad=1; }

# Times. The stage takes 4 s of processor time, most of it in a child of a child, and the second one none of it.
busy='sh -c "sh -c \"ulimit -t 4; while :; do :; done\"; sleep 0" 2>/dev/null; count 1 0 0'
planted "one=$busy" 'two=sleep 1; count 1 0 0' 'three=count 0 1 0' 'four=count 0 0 1' $'five=# when: full\n: "$FULL"\ncount 1 0 0' 'six=echo "$FULL"; count 1 0 0'
before='| `one` | An old text. | 7.0 | 8.0 | 9.0 | 9.5 | cold 2026-01-01 x, 1 jobs; warm 2026-01-02 y, 2 jobs |'
old=('| `three` | A planted stage. | 3.0 |  |  |  | cold estimated |' '| `four` | A planted stage. | 4.0 |  |  |  |  |'
  '| `five` | A planted stage. (`--full`) | 5.0 |  |  |  |  |' '| `six` | A planted stage. | 6.0 |  |  |  |  |')
table "$before" "${old[@]}" '| `gone` | A stage of another time. | 1.0 |  |  |  |  |'
expect "times: what is not ok is still not ok" 1 '^3 passed, 1 failed, 1 skipped$' --times warm
here="$(date +%F) $(uname -n), $(nproc) jobs"
grep -qE '^--- one: ok in [0-9]+ s, [345] s of CPU time$' "$scratch/log" &&
  grep -qE '^--- two: ok in [0-9]+ s, [01] s of CPU time$' "$scratch/log" ||
  { echo "FAILED: CPU time of a stage's processes, and of no other's:"; cat "$scratch/log"; bad=1; }
expect_table "times: warm beside cold" "^\| \`one\` \| A planted stage\. \| 7\.0 \| [0-9]\.[1-9] \| 9\.0 \| 0\.1 \| warm $here; cold 2026-01-01 x, 1 jobs \|\$"
expect_table "times: a new row" "^\| \`two\` \| A planted stage\. \|  \| 0\.[0-9] \|  \| 0\.0 \| warm $here \|\$"
for about in three four five; do expect_table "times: $about keeps its row" "^\| \`$about\` .*\| [345]\.0 \|  \|  \|  \|"; done
expect_table "times: a stage's own minutes" "^\| \`six\` \| A planted stage\. \| 6\.0 \| 0\.[0-9] \|"
! grep -q '`gone`' "$scratch/tree/tests/README.md" || { echo "FAILED: the row of a stage that there is not"; bad=1; }
[ "$(grep -c '^Before\.$\|^Behind\.$\|^| `two` | a folder | 99.0 ' "$scratch/tree/tests/README.md")" = 4 ] ||
  { echo "FAILED: the text around the table changed"; bad=1; }
cp "$scratch/tree/tests/README.md" "$scratch/before"
expect "the table is written on demand only" 0 '^1 passed, 0 failed, 0 skipped$' --only two
cmp "$scratch/tree/tests/README.md" "$scratch/before" || bad=1
expect "times: cold" 0 '^3 passed, 0 failed, 0 skipped$' --times cold --full --only two --only five --only six
expect_table "times: cold beside warm" "^\| \`two\` \| A planted stage\. \| 0\.[0-9] \| 0\.[0-9] \| 0\.0 \| 0\.0 \| cold $here; warm $here \|\$"
expect_table "times: a stage of --full" '^\| `five` .*\| 0\.[0-9] \|  \| 0\.0 \|  \| cold '
expect_table "times: not of a stage that does more with --full" '^\| `six` \| A planted stage\. \| 6\.0 \| '
expect "times of what" 2 "needs cold or warm, not 'hot'" --times hot
sed -i '/^<!-- stages: end/d' "$scratch/tree/tests/README.md"
expect "times without a table" 2 "README.md has no lines '<!-- stages: begin -->'" --times cold

# A stage that takes longer than the table says; tests/scripts/times_test.sh has the limits.
planted 'one=sleep 4; count 1 0 0' 'two=count 0 1 0' 'plan=sleep 4; echo "$FULL"; count 1 0 0'
echo SLACK_SECONDS=0 >>"$scratch/tree/tests/run.d/times.sh"
table '| `one` | A planted stage. | 0.0 | | | | |' '| `plan` | A planted stage. | | 0.0 | | | |' '| `two` | A planted stage. | 1.0 | | | | |'
expect "what took longer is said" 0 '^  one  .* 1 passed; took [0-9]+\.[1-9] min, the table says 0\.0$' --only one
expect "by the warm time if there is no other" 0 '^  plan .* 1 passed; took 0\.[1-9] min, the table says 0\.0$' --only plan
expect "it is compared with the table before this run" 0 '^  one  .*; took [0-9]+\.[1-9] min, the table says 0\.0$' --only one --times warm
expect "what took no longer is not said" 0 '^  one +ok +[0-9]+ s +1 passed$' --only one --times warm
expect "what does more with --full is not compared" 0 '^  plan +ok +[0-9]+ s +1 passed$' --only plan --full

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
  planted 'zero=count 1 0 0' 'one=echo started; sleep 300; count 1 0 0' 'two=echo second >"$ROOT/second"; count 1 0 0' $'three=# beside: yes\nsleep 300'
  : >"$scratch/log"  # the last run's says "started" too
  setsid env --default-signal=INT "$scratch/tree/tests/run.sh" >"$scratch/log" 2>&1 &
  pid=$!
  for _ in $(seq 600); do grep -q started "$scratch/log" && break; sleep 0.1; done
  started=$SECONDS
  if [ $signal = INT ]; then kill -INT -- "-$pid"; else kill -TERM "$pid"; fi
  wait "$pid"
  status=$?
  if [ $status -ne 130 ] || [ $((SECONDS - started)) -gt 60 ] || [ -e "$scratch/tree/second" ] ||
    ! grep -q '^1 passed, 1 failed, 0 skipped$' "$scratch/log" || kill -0 -- "-$pid" 2>/dev/null; then
    echo "FAILED: SIG$signal: exit status $status, expected 130 soon, no second stage and no process left:"
    sed 's/^/    /' "$scratch/log"
    bad=1
  fi
done
exit $bad
