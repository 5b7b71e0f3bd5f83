#!/usr/bin/env bash
# tests/fuzz/run.sh with a planted build and planted fuzzers, whose smallest set is one new input: what was put into the
# corpus by hand stays.
set -uo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
bad=0
old="$(printf '0%.0s' {1..40})" new="$(printf '1%.0s' {1..40})"

plant() {  # FILE, body on standard input: a program
  mkdir -p "$(dirname "$scratch/$1")"
  { echo '#!/bin/sh'; cat; } >"$scratch/$1"
  chmod +x "$scratch/$1"
}
real="$(command -v cmake)"
plant bin/cmake <<<"[ \"\$1\" != -E ] || exec '$real' \"\$@\""
plant bin/ninja <<<'exit 0'
for target in csv bundle; do
  plant "tree/build/fuzz/bin/fuzz/fuzz_$target" <<SH
[ "\$1" != -set_cover_merge=1 ] || for folder; do case "\$folder" in */minimal) echo new >"\$folder/$new" ;; esac; done
SH
done
mkdir -p "$scratch/tree/tests/run.d" "$scratch/tree/tests/fuzz/corpus/csv" "$scratch/bundles"
cp "$root/tests/fuzz/run.sh" "$scratch/tree/tests/fuzz/"
cp "$root/tests/run.d/configure.sh" "$scratch/tree/tests/run.d/"
: >"$scratch/tree/tests/fuzz/make_seeds.py"
for folder in "$scratch/bundles" "$scratch/tree/tests/fuzz/corpus/csv"; do
  echo old >"$folder/$old"
  echo found >"$folder/a_finding"
done
corpus="$scratch/tree/tests/fuzz/corpus"
(cd "$scratch/bundles" && cmake -E tar cJf "$corpus/bundle.tar.xz" -- "$old" a_finding)

run() { PATH="$scratch/bin:$PATH" "$scratch/tree/tests/fuzz/run.sh" "$@" >"$scratch/log" 2>&1; }
# holds FOLDER: the new smallest set and the finding, no more.
holds() {
  [ "$(cd "$1" && echo *)" = "$new a_finding" ] && [ "$(cat "$1/a_finding")" = found ] && return
  echo "FAILED: $1 holds $(ls "$1"), and the run said:"
  sed 's/^/    /' "$scratch/log"
  bad=1
}
run 1 csv bundle || { echo "FAILED: the run ends with $?"; sed 's/^/    /' "$scratch/log"; bad=1; }
holds "$corpus/csv"
(rm "$scratch/bundles"/* && cd "$scratch/bundles" && cmake -E tar xf "$corpus/bundle.tar.xz")
holds "$scratch/bundles"
sum="$(cksum <"$corpus/bundle.tar.xz")"
run 2 bundle
[ "$sum" = "$(cksum <"$corpus/bundle.tar.xz")" ] || { echo "FAILED: the same inputs give another archive"; bad=1; }
for minutes in 0.5 0 08 1m; do
  run "$minutes" csv
  status=$?
  [ $status -eq 2 ] && grep -q "'$minutes' is no whole number" "$scratch/log" || { echo "FAILED: $minutes minutes: $status"; bad=1; }
done
exit $bad
