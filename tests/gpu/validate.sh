#!/usr/bin/env bash
# One call of a visit to a machine with a GPU: stages in order of value, each under its own limit, results streamed to OUT. README.md says how
# a visit is done and what each stage settles.
#
#   tests/gpu/validate.sh CALL [--only STAGE[=SECONDS]]... [--seconds N] [--dry-run] [--out FOLDER] [--list]
#
#   CALL is A, B, C or S, or several of them (ABC): the stages of all, in that order, in one call
#
#   A            probe, accept or build, correctness, compute-sanitizer, ceilings, tuning sweeps, a first look at the speed
#   B            end to end, fast peers, compiled peers, ablation, profiles
#   C            tables larger than the device: where rows may lie, lookups alone and the whole model
#   S            what smoke.sh runs: the stages of A that compare, in five minutes
#   --only       these stages alone (may be repeated), with a limit of their own if one is named
#   --seconds    when the call ends, where there are fewer than 580: what is left to a later stage shrinks
#   --dry-run    every stage at tiny sizes on the emulated device and torch on the CPU; a stage that breaks makes the exit status 1
#   --out        where results go; default: $OUT, else build/gpu_visit. results.jsonl is appended to, one line at a time
#
# Runs from an unpacked pack (pack.sh), or with DPI_GPU_PACK naming one. A call ends within 580 s, whatever hangs. A visit of less time, for instance
# what says whether anything works, and then the numbers:
#
#   tests/gpu/validate.sh AB --seconds 240 --only A0 --only A1 --only A2=120 --only A4=30 --only B1=60
set -uo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
# name script limit in seconds
A="A0 a0_probe 20
A1 a1_accept 150
A2 a2_correctness 230
A3 a3_sanitizer 120
A4 a4_ceilings 60
A5 a5_tune 110
A7 a7_first_look 90
A8 a8_more_correctness 120"
B="B0 a0_probe 20
B1 b1_end_to_end 190
B2 b2_peers 140
B3 b3_compiled 105
B4 b4_ablation 45
B5 b5_profile 90"
C="C0 a0_probe 20
C1 c1_tiers 170
C2 c2_tiered_model 380"
S="A0 a0_probe 20
A1 a1_accept 150
A2 a2_correctness 150
A3 a3_sanitizer 110
A8 a8_more_correctness 60"
LIMIT=570

help() { sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; }

call="" only="" dry=0 out="${OUT:-$here/../../build/gpu_visit}"
while [ $# -gt 0 ]; do
  case "$1" in
    S) call="$1" LIMIT=295 ;;
    [ABCS] | [ABCS][ABCS] | [ABCS][ABCS][ABCS]) call="$1" ;;
    --only) only="$only ${2:?--only needs a stage}"; shift ;;
    --seconds)
      LIMIT="${2:?--seconds needs a number}"
      [[ "$LIMIT" =~ ^[0-9]+$ ]] && [ "$LIMIT" -le 570 ] || { echo "--seconds takes a whole number up to 570, not '$LIMIT'" >&2; exit 2; }
      shift
      ;;
    --out) out="${2:?--out needs a folder}"; shift ;;
    --dry-run) dry=1 ;;
    --list) printf '%s\n\n%s\n\n%s\n' "$A" "$B" "$C"; exit 0 ;;
    -h | --help) help; exit 0 ;;
    *) echo "unknown argument '$1'; see --help" >&2; exit 2 ;;
  esac
  shift
done
[ -n "$call" ] || { help; exit 2; }
stages=""
while read -r -n 1 letter; do [ -z "$letter" ] || stages+="${!letter}"$'\n'; done <<<"$call"
for name in $only; do
  [[ "$name" =~ ^[A-Z][0-9](=[0-9]+)?$ ]] || { echo "--only takes a stage, or a stage and its seconds (A2=100), not '$name'" >&2; exit 2; }
  grep -q "^${name%=*} " <<<"$stages" || { echo "no stage '${name%=*}' in call $call; see --list" >&2; exit 2; }
done

. "$here/environment.sh"
finish=$((EPOCHSECONDS + LIMIT))
failed=0 summary=""
while read -r name script limit; do
  [ -n "$name" ] || continue
  case "$only " in
    " ") ;;
    *" $name="*) limit="${only##* "$name"=}" limit="${limit%% *}" ;;
    *" $name "*) ;;
    *) continue ;;
  esac
  remaining=$((finish - EPOCHSECONDS))
  if [ "$remaining" -lt 5 ]; then
    summary+="$(printf '%-4s %-16s not run: out of time' "$name" "$script")"$'\n'
    continue
  fi
  # A loaded machine must not fail a dry run.
  [ "$limit" -le "$remaining" ] && [ "$dry" = 0 ] || limit="$remaining"
  echo "=== $name $script, at most $limit s"
  started=$EPOCHSECONDS
  STAGE="$name" DEADLINE=$((EPOCHSECONDS + limit - 3)) timeout -k 2 "$limit" "$PYTHON" "$PACK/tests/gpu/stages/$script.py" </dev/null
  status=$?
  verdict=passed
  if [ $status -eq 124 ] || [ $status -eq 137 ]; then
    verdict="cut at $limit s"
    [ "$dry" = 0 ] || failed=$((failed + 1))
  elif [ $status -ne 0 ]; then
    verdict=FAILED
    failed=$((failed + 1))
  fi
  summary+="$(printf '%-4s %-16s %-14s %4d s' "$name" "$script" "$verdict" $((EPOCHSECONDS - started)))"$'\n'
done <<<"$stages"

timeout 20 "$PYTHON" "$PACK/tests/gpu/stages/table.py" "$OUT/results.jsonl" || failed=$((failed + 1))
printf '%s' "$summary"
[ "$failed" = 0 ]
