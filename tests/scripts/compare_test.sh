#!/usr/bin/env bash
# tests/bench/compare.sh with planted programs whose times are known.
set -uo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
bad=0

# plant FOLDER "US...": a build whose program's turns take so long, one after the other; "die" ends it.
plant() {
  mkdir -p "$scratch/$1/bin"
  tr ' ' '\n' <<<"$2" >"$scratch/$1/times"
  cat >"$scratch/$1/bin/dpi" <<'SH'
#!/bin/sh
here="$(dirname "$0")/.."
echo "$@" >>"$here/../calls"
us="$(head -1 "$here/times")"
sed -i 1d "$here/times"
[ "$us" != die ] || { echo "no such model" >&2; exit 3; }
printf '{"runs":[{"batch":8,"callers":1,"p50_us":%s,"best_us":1,"p99_us":1}]}' "$us"
SH
  chmod +x "$scratch/$1/bin/dpi"
}
check() {  # ABOUT WANT GOT
  [ "$2" = "$3" ] && return
  echo "compare_test: $1: expected '$2', got '$3'" >&2
  bad=1
}
compare() { "$root/tests/bench/compare.sh" "$scratch/a" "$scratch/b" --models m.h5 --batches 8 "$@" 2>&1; }
field() { python3 -c 'import json, sys; print(json.load(sys.stdin)["cells"][0][sys.argv[1]])' "$1"; }

plant a "100 110 90"; plant b "50 55 45"
found="$(compare --turns 3 --json)"
check "ratio" 2.0 "$(field ratio <<<"$found")"
check "all pairs agree" faster "$(field b_is <<<"$found")"
plant a "50 50 50"; plant b "100 60 55"
check "the slower one" slower "$(compare --turns 3 --json | field b_is)"
plant a "100 100 100"; plant b "90 90 101"
found="$(compare --turns 3 --json)"
check "one pair disagrees" same "$(field b_is <<<"$found")"
check "the smallest pair" 0.99 "$(field least <<<"$found" | cut -c1-4)"

rm "$scratch/calls"
plant a "1 1 1"; plant b "1 1 1"
compare --turns 3 --threads 2 --option-b spin_us=200 --json >"$scratch/out"
check "turns of both" "no yes yes no no yes" "$(awk '{print /spin_us=200/ ? "yes" : "no"}' "$scratch/calls" | xargs)"
check "threads are handed on" 6 "$(grep -c -- '--threads 2' "$scratch/calls")"
plant a "1 1"; plant b "1 1"
check "a line per cell" 2 "$(compare --turns 2 | wc -l)"

plant a "1 die"; plant b "1 1"
compare --turns 2 >"$scratch/out"
check "a run that fails" 1 $?
check "its text" yes "$(grep -q 'exit status 3: no such model' "$scratch/out" && echo yes)"
compare --turns 1 >"$scratch/out"
check "one turn is refused" 2 $?
compare --help >"$scratch/out"
check "help" 0 $?
[ $bad = 0 ] && echo "compare_test: ok"
exit $bad
