#!/usr/bin/env bash
# samples/quickstart.sh with a planted set-up, build and programs: scores come before dpi is built, progress is short, faults end it.
set -uo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
bad=0 tree="$scratch/a tree"
mkdir -p "$tree"/{samples,packaging,weights/demo} "$scratch/bin"
cp "$root/samples/quickstart.sh" "$tree/samples/"
printf 'a,label\n1,0\n' | tee "$tree"/weights/demo/{adult,bank,msweb}_test.csv >/dev/null

plant() {  # PATH, body on standard input
  { echo '#!/usr/bin/env bash'; cat; } >"$1"
  chmod +x "$1"
}
plant "$tree/packaging/setup.sh" <<<'echo "setup $*"'
# `cmake --build ... --target T` tells the steps as ninja does and makes the program; more scores than a pipe holds.
plant "$scratch/bin/cmake" <<'SH'
[ "$1" = --build ] || { echo "configured $*"; exit 0; }
target="${@: -1}"
echo "target $target"
for step in $(seq "${STEPS:-96}"); do echo "${NINJA_STATUS/\[%f\/%t\]/[$step/${STEPS:-96}]}Building $step"; done
mkdir -p build/release/bin
if [ "$target" = score_csv ]; then
  printf '#!/bin/sh\nseq 100000 | sed "s/^/0./"\necho "scored $DPI_DEVICE $*" >&2\nexit ${SCORE_STATUS:-0}\n' >build/release/bin/score_csv
else
  printf '#!/bin/sh\necho "dpi $*"\necho "  AUC 0.9, training framework 0.9"\n' >build/release/bin/dpi
fi
chmod +x build/release/bin/*
# The program of an earlier build stays where this one fails.
[ "${BROKEN:-}" != "$target" ] || { echo "FAILED: planted.o"; echo "planted.cpp:1: error: planted" >&2; exit 1; }
SH

failed() { echo "FAILED: $1:"; sed 's/^/    /' "$scratch/log"; bad=1; }
run() { rm -rf "$tree/build"; env "$@" PATH="$scratch/bin:$PATH" "$tree/samples/quickstart.sh" >"$scratch/log" 2>&1; }
# in_order TEXT...: lines that begin so, in this order.
in_order() { grep -nE "^($(IFS='|'; echo "$*"))" "$scratch/log" | sed -E 's/^[0-9]+://' | awk '{ print ($1 == "target" ? $2 : $1) }' | uniq | tr '\n' ' '; }

run A=1 && grep -q '^  AUC .*training framework' "$scratch/log" || failed "it ends with the AUC beside the framework's"
[ "$(in_order setup configured 'target score_csv' scored 0.10 'target dpi_program' 'dpi predict')" = "setup configured score_csv scored 0.10 dpi_program dpi " ] ||
  failed "scores are shown before the program is built"
[ "$(grep -c '^0\.' "$scratch/log")" = 10 ] && grep -qx '100000 rows scored' "$scratch/log" || failed "ten scores, and how many there are"
grep -qE '^scored cpu weights/demo/adult_widedeep.h5 weights/demo/adult_test.csv$' "$scratch/log" || failed "scored on the CPU"
head -n 3 "$scratch/log" | grep -q '^ *packages .*MiB' &&
  sed -n '/^==>/q;p' "$scratch/log" | grep -q '^ *build .*minutes on two cores.* cache' ||
  failed "it begins with what it will take"
[ "$(grep -c '^building: ' "$scratch/log")" -le 8 ] && [ "$(grep -cx 'building: 96 of 96 steps done, 0 left' "$scratch/log")" = 2 ] &&
  grep -qx 'building: 1 of 96 steps done, 95 left' "$scratch/log" && ! grep -q 'Building' "$scratch/log" ||
    failed "progress is a line now and then"
run STEPS=0 || failed "nothing to build"
! grep -q '^building' "$scratch/log" || failed "no progress where nothing is built"
run NINJA_STATUS='%p ' || failed "another form of ninja's status"
grep -qx 'building: 96 of 96 steps done, 0 left' "$scratch/log" || failed "another form of ninja's status"

! run BROKEN=score_csv && grep -qx 'FAILED: planted.o' "$scratch/log" && grep -q 'error: planted' "$scratch/log" &&
  ! grep -q '^scored\|^target dpi' "$scratch/log" ||
  failed "a build that fails ends it, with the compiler's message"
! run BROKEN=dpi_program && grep -q '^scored' "$scratch/log" && ! grep -q 'AUC .*training' "$scratch/log" || failed "the second build fails"
! run SCORE_STATUS=3 && ! grep -q '^target dpi' "$scratch/log" || failed "scoring that fails ends it"

PATH="$scratch/bin:$PATH" "$tree/samples/quickstart.sh" --all >"$scratch/log" 2>&1
[ "$(grep -c '^dpi predict weights/demo/.* --device cpu --raw --label label --summary$' "$scratch/log")" = 3 ] || failed "--all"
if command -v script >/dev/null; then
  rm -rf "$tree/build"
  PATH="$scratch/bin:$PATH" script -qec "'$tree/samples/quickstart.sh'" /dev/null >"$scratch/log" 2>&1 </dev/null
  [ "$(grep -c 'building: ' "$scratch/log")" = 2 ] && grep -q $'\rbuilding: 50 of 96 steps done, 46 left' "$scratch/log" ||
    failed "on a terminal each build has one line, which counts"
fi
exit $bad
