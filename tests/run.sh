#!/usr/bin/env bash
# Sets up, builds and tests everything, and closes with one line: "N passed, N failed, N skipped".
#
#   tests/run.sh [--full] [--only STAGE]... [--skip STAGE]... [--jobs N] [--list] [--help]
#
#   --full         adds what is too slow for every run
#   --only STAGE   runs the named stages only (may be repeated); what they need must have been built before
#   --skip STAGE   leaves a stage out
#   --jobs N       parallel compilations and tests (default: the number of processors)
#   --list         prints the stages
#
# Stages are the files tests/run.d/NN_name.sh, run in the order of NN, each in a shell of its own with the repository's
# root as working directory. To add a stage, add a file:
#
#   # What it does in one line (shown by --list).
#   # when: always            or: full
#   packages parity           # groups of packaging/setup.sh that it needs
#   my_command || count 0 1 0 # count PASSED FAILED SKIPPED adds to the total, as often as you like
#
# A stage that ends with a non-zero status without having counted a failure counts as one failed. `essential` at the top of a
# stage ends the run if it fails. Helpers: tests/run.d/lib.sh; environment: FULL (0 or 1), JOBS, PYTHON, ROOT, BUILD (the
# folder of all presets).
set -uo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$ROOT" || exit 1
FULL=0
JOBS="$(nproc)"
PYTHON=/usr/bin/python3
BUILD="$ROOT/build"
export ROOT FULL JOBS PYTHON BUILD

stage_name() { basename "$1" .sh | sed 's/^[0-9]*_//'; }
stage_about() { sed -n '1s/^# //p' "$1"; }
stage_is_full() { grep -q '^# when: full' "$1"; }
help() { sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; }

list_stages() {
  local file
  for file in tests/run.d/[0-9]*.sh; do
    printf '  %-14s %s%s\n' "$(stage_name "$file")" "$(stage_about "$file")" \
      "$(stage_is_full "$file" && echo ' (--full)')"
  done
}

wanted() {  # file: by --only and --skip, else by --full
  local name
  name="$(stage_name "$1")"
  case " $SKIP " in *" $name "*) return 1 ;; esac
  if [ -n "$ONLY" ]; then
    case " $ONLY " in *" $name "*) return 0 ;; *) return 1 ;; esac
  fi
  [ "$FULL" = 1 ] || ! stage_is_full "$1"
}

parse() {
  ONLY="" SKIP=""
  while [ $# -gt 0 ]; do
    case "$1" in
      --full) FULL=1 ;;
      --only) ONLY="$ONLY ${2:?--only needs a stage}"; shift ;;
      --skip) SKIP="$SKIP ${2:?--skip needs a stage}"; shift ;;
      --jobs) JOBS="${2:?--jobs needs a number}"; shift ;;
      --list) list_stages; exit 0 ;;
      -h | --help) help; list_stages; exit 0 ;;
      *) echo "unknown argument '$1'; see --help" >&2; exit 2 ;;
    esac
    shift
  done
  local name known
  known="$(list_stages)"
  for name in $ONLY $SKIP; do
    grep -q "^  $name " <<<"$known" || { echo "no stage '$name'; see --list" >&2; exit 2; }
  done
}

run_stage() {  # file; leaves its counts in passed, failed, skipped
  local file="$1" name started seconds status before
  name="$(stage_name "$file")"
  printf '\n=== %s: %s\n' "$name" "$(stage_about "$file")"
  started=$SECONDS
  before=$failed
  : >"$COUNTS"
  bash -uo pipefail -c '. tests/run.d/lib.sh; . "$1"' _ "$file" </dev/null
  status=$?
  seconds=$((SECONDS - started))
  local p f s
  while read -r p f s; do
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  done <"$COUNTS"
  [ $status -eq 0 ] || [ "$failed" -gt "$before" ] || failed=$((failed + 1))
  local verdict=ok
  [ "$failed" -eq "$before" ] || verdict=FAILED
  printf -- '--- %s: %s in %d s\n' "$name" "$verdict" "$seconds"
  SUMMARY+="$(printf '  %-14s %-7s %5d s' "$name" "$verdict" "$seconds")"$'\n'
  [ "$verdict" = ok ] || ! grep -q '^essential' "$file"
}

main() {
  parse "$@"
  passed=0 failed=0 skipped=0 SUMMARY=""
  COUNTS="$(mktemp)"
  export COUNTS FULL JOBS
  trap 'rm -f "$COUNTS"' EXIT
  local file ran=0
  for file in tests/run.d/[0-9]*.sh; do
    wanted "$file" || continue
    ran=$((ran + 1))
    run_stage "$file" || { echo "the stages after it need it: stopped"; break; }
  done
  printf '\n%stotal %d s\n' "$SUMMARY" "$SECONDS"
  printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
  [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}

main "$@"
