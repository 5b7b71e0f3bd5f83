#!/usr/bin/env bash
# Sets up, builds and tests the project, and closes with one line: "N passed, N failed, N skipped".
#
#   tests/run.sh [--sanitizers] [--full] [--only NAME]... [--skip STAGE]... [--within M] [--times KIND] [--jobs N] [--list] [--help]
#
# Without arguments it runs everything that finds faults without a build under a sanitizer.
#
#   --sanitizers   adds the stages that build under AddressSanitizer with UndefinedBehaviorSanitizer, and under ThreadSanitizer
#   --full         adds these, and the stages that are too slow for every run
#   --only NAME    runs this alone (may be repeated): a stage, after the stages that build what it needs, or an area of
#                  the C and C++ tests (a folder of tests/, such as `plan`), which is built first
#   --skip STAGE   leaves a stage out
#   --within M     skips each stage that could end later than M minutes after the start, by its cold time in tests/README.md
#                  (5 where the table has none); the summary counts it as skipped
#   --times KIND   writes the time of each stage into the table of tests/README.md, as `cold` or `warm`. You choose, because the script cannot
#                  tell: apart from the compiler cache, build folders, virtual environments, and the caches of Go and pip matter.
#   --jobs N       parallel compilations and tests (default: the number of processors)
#   --list         prints the stages and the areas
#
# Stages are the files of tests/run.d, run in the order of their numbers, each in its own shell with the repository's
# root as working directory. To add a stage, add a file, and run tests/run.d/times.sh to give it a row in tests/README.md:
#
#   # What it does in one line (shown by --list).
#   # when: always            or: sanitizers, full; always unless said
#   # ahead: a command        begins beside the stages before this one, after the first; for downloads. The stage runs it again itself
#   # beside: why             runs in a second lane, beside the stages that do not need it; see tests/run.d/beside.sh
#   packages parity           # groups of packaging/setup.sh that it needs; the stage ends as failed without them
#   check "it works" my_command
#   count 0 1 0               # count PASSED FAILED SKIPPED adds to the total, as often as you like
#
# A stage counts as failed if it exits with a non-zero status and counted no failure, and also if it counted nothing at all.
# Checks that cannot run on this machine count as skipped, or as failed. `essential` at the
# top of a stage ends the run if it fails. Helpers: tests/run.d/lib.sh; environment: FULL (0 or 1), JOBS, PYTHON, ROOT, BUILD
# (the folder of all presets), RUN (a folder of this run, removed at its end).
#
# The summary names the stages that took at least 1.5 times the table's time and 20 s more; that is not a failure. CPU time counts the
# stage's processes that ended before it did, so not a daemon that it left behind. --times keeps the row of a stage that did
# not run, was not ok, or does more because of --full.
#
# Each run configures build/<preset> anew. It drops settings that other commands left there and keeps compiled objects.
# Ctrl-C (or SIGTERM) ends the run, with exit status 130.
set -uo pipefail
umask 022  # what tests write is theirs alone to change: the library refuses plugins that others may write to

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
cd "$ROOT" || exit 1
FULL=0
JOBS="$(nproc)"
PYTHON=/usr/bin/python3
BUILD="$ROOT/build"
export ROOT FULL JOBS PYTHON BUILD

. tests/run.d/times.sh
. tests/run.d/beside.sh

help() { sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; }

# The areas of C and C++ tests: the folders of tests/ that register some.
areas() { grep -lE '^ *dpi_(command_)?test\(' tests/*/CMakeLists.txt 2>/dev/null | cut -d/ -f2; }
export -f areas

list_stages() {
  local file when
  for file in tests/run.d/[0-9]*.sh; do
    when="$(stage_when "$file")"
    [ "$when" = always ] && when="" || when=" (--$when)"
    printf '  %-14s %s%s\n' "$(stage_name "$file")" "$(stage_about "$file")" "$when"
  done
}

print_list() {
  echo "stages; --full runs those of --sanitizers too:"
  list_stages
  echo "areas, for --only:" $(areas)
}

wanted() {  # file: by --only and --skip, else by --sanitizers and --full
  local name
  name="$(stage_name "$1")"
  case " $SKIP " in *" $name "*) return 1 ;; esac
  if [ -n "$ONLY" ]; then
    case " $ONLY " in *" $name "*) return 0 ;; *) return 1 ;; esac
  fi
  case "$(stage_when "$1")" in
    full) [ "$FULL" = 1 ] ;;
    sanitizers) [ "$FULL" = 1 ] || [ "$SANITIZERS" = 1 ] ;;
  esac
}

parse() {
  ONLY="" SKIP="" WITHIN="" TIMES="" SANITIZERS=0
  while [ $# -gt 0 ]; do
    case "$1" in
      --full) FULL=1 ;;
      --sanitizers) SANITIZERS=1 ;;
      --only) ONLY="$ONLY ${2:?--only needs a stage}"; shift ;;
      --skip) SKIP="$SKIP ${2:?--skip needs a stage}"; shift ;;
      --within)
        WITHIN="${2:?--within needs minutes}"
        [[ $WITHIN =~ ^[1-9][0-9]*$ ]] || { echo "--within needs minutes, not '$WITHIN'; see --help" >&2; exit 2; }
        shift
        ;;
      --times)
        TIMES="${2:?--times needs cold or warm}"
        [[ $TIMES =~ ^(cold|warm)$ ]] || { echo "--times needs cold or warm, not '$TIMES'; see --help" >&2; exit 2; }
        shift
        ;;
      --jobs) JOBS="${2:?--jobs needs a number}"; shift ;;
      --list) print_list; exit 0 ;;
      -h | --help) help; print_list; exit 0 ;;
      *) echo "unknown argument '$1'; see --help" >&2; exit 2 ;;
    esac
    shift
  done
  local name known file
  for file in tests/run.d/[0-9]*.sh; do
    [[ $(stage_when "$file") =~ ^(always|sanitizers|full)$ ]] ||
      { echo "$file: '# when: $(stage_when "$file")' is none of always, sanitizers, full" >&2; exit 2; }
  done
  [ -z "$TIMES" ] || has_table || { echo "--times: $TABLE has no lines '$BEGIN' and '$END'" >&2; exit 2; }
  known="$(list_stages)"
  AREAS=""
  for name in $ONLY $SKIP; do
    grep -q "^  $name " <<<"$known" && continue
    case " $ONLY " in *" $name "*) grep -qx "$name" <<<"$(areas)" && AREAS+=" $name" && continue ;; esac
    echo "no stage '$name', and no area to run alone; see --list" >&2
    exit 2
  done
}

# run_stage NAME FILE ABOUT [AREA]: adds to passed, failed, skipped; leaves VERDICT, TOOK and CPU.
run_stage() {
  local name="$1" file="$2" started=$SECONDS status p f s stage_passed=0 stage_failed=0 stage_skipped=0 verdict=ok took cpu note
  printf '\n=== %s: %s\n' "$name" "$3"
  : >"$COUNTS"
  cpu_seconds
  cpu=$CPU_SECONDS
  # In the background, so that a signal is seen at once; a shell would let such a child ignore Ctrl-C.
  AREA="${4:-}" env --default-signal=INT,QUIT bash -uo pipefail -c '. tests/run.d/lib.sh; . "$1"' _ "$file" </dev/null &
  STAGE=$!
  wait "$STAGE"
  status=$?
  STAGE=""
  took=$((SECONDS - started))
  cpu_seconds
  cpu=$((CPU_SECONDS - cpu))
  while read -r p f s; do
    stage_passed=$((stage_passed + p)) stage_failed=$((stage_failed + f)) stage_skipped=$((stage_skipped + s))
  done <"$COUNTS"
  if [ $status -ne 0 ] && [ $stage_failed -eq 0 ]; then
    echo "the stage ended with status $status"
    stage_failed=1
  elif [ $((stage_passed + stage_failed + stage_skipped)) -eq 0 ]; then
    echo "the stage ran nothing"
    stage_failed=1
  fi
  if [ $stage_failed -gt 0 ]; then verdict=FAILED; elif [ $stage_passed -eq 0 ]; then verdict=skipped; fi
  passed=$((passed + stage_passed)) failed=$((failed + stage_failed)) skipped=$((skipped + stage_skipped))
  VERDICT=$verdict TOOK=$took CPU=$cpu
  printf -- '--- %s: %s in %d s, %d s of CPU time\n' "$name" "$verdict" "$took" "$cpu"
  SUMMARY+="$(printf '  %-14s %-7s %5d s  %5d passed' "$name" "$verdict" "$took" "$stage_passed")"
  [ $stage_failed -eq 0 ] || SUMMARY+=", $stage_failed failed"
  [ $stage_skipped -eq 0 ] || SUMMARY+=", $stage_skipped skipped"
  if ! does_more "$file"; then
    note="$(slower "$name" "$took")"
    [ -z "$note" ] || SUMMARY+="; $note"
    [ -z "$TIMES" ] || [ $verdict != ok ] || [ -n "${4:-}" ] || write_table "$name" "$TIMES" "$took" "$cpu"
  fi
  SUMMARY+=$'\n'
  [ $stage_failed -eq 0 ] || ! grep -q '^essential' "$file"
}

# does_more FILE: the stage does more in this run than in one without --full, so its time is another.
does_more() { [ "$FULL" = 1 ] && [ "$(stage_when "$1")" != full ] && grep -q FULL "$1"; }

# left_out NAME FILE ABOUT: whether its minutes do not fit in what --within leaves; then it is told, and counted as skipped.
left_out() {
  local minutes left
  [ -n "$WITHIN" ] || return 1
  minutes="$(cold_minutes "$1")" left=$(((WITHIN * 60 - SECONDS) / 60))
  [ "$minutes" -gt "$left" ] || return 1
  printf '\n=== %s: %s\n' "$1" "$3"
  printf -- '--- %s: LEFT OUT: it may take %d minutes, and %d of --within %d are left\n' "$1" "$minutes" "$left" "$WITHIN"
  SUMMARY+="$(printf '  %-14s left out: it may take %d minutes, and %d of %d were left' "$1" "$minutes" "$left" "$WITHIN")"$'\n'
  skipped=$((skipped + 1))
}

end_tree() {  # PID: it and all that it started
  local child
  for child in $(cat "/proc/$1/task/$1/children" 2>/dev/null); do end_tree "$child"; done
  kill -TERM "$1" 2>/dev/null
}

# start_ahead STAGE_FILE: after the run's first stage, what the later ones have to download begins. Its processor time is counted
# in the stage during which it ends. Its output is dropped: the stage that needs it runs it again and shows what fails.
start_ahead() {
  local file command
  for file in tests/run.d/[0-9]*.sh; do
    [[ $file > $1 ]] && wanted "$file" || continue
    command="$(stage_ahead "$file")"
    [ -n "$command" ] || continue
    env --default-signal=INT,QUIT bash -uo pipefail -c "$command" </dev/null >/dev/null 2>&1 &
  done
}

end_ahead() {
  local started
  for started in $(jobs -pr); do end_tree "$started"; done
}

interrupted() {
  trap - INT TERM  # a second one ends this script at once
  if [ -n "$STAGE" ]; then
    end_tree "$STAGE"
    wait "$STAGE"
    failed=$((failed + 1))
  fi
  end_beside
  echo
  echo "interrupted"
  summary
  exit 130
}

summary() {
  printf '\n%stotal %d s\n' "$SUMMARY" "$SECONDS"
  printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
}

main() {
  parse "$@"
  passed=0 failed=0 skipped=0 SUMMARY="" STAGE=""
  RUN="$(mktemp -d)"
  COUNTS="$RUN/counts"
  export RUN COUNTS FULL JOBS
  trap 'end_ahead; end_beside; rm -rf "$RUN"' EXIT
  trap interrupted INT TERM
  local file area first=1 stopped=0
  for file in tests/run.d/[0-9]*.sh; do
    wanted "$file" || continue
    [[ " ${BESIDE[*]} " != *" $file "* ]] || continue
    join_beside "$file"
    ! left_out "$(stage_name "$file")" "$file" "$(stage_about "$file")" || continue
    run_stage "$(stage_name "$file")" "$file" "$(stage_about "$file")" || { echo "the stages after it need it: stopped"; stopped=1; break; }
    [ $first = 0 ] || { start_ahead "$file"; start_beside "$file"; }
    first=0
  done
  [ $stopped = 1 ] || join_beside
  for area in $AREAS; do
    run_stage "$area" tests/run.d/area.sh "the tests of tests/$area" "$area"
  done
  summary
  [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}

main "$@"
