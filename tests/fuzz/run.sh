#!/usr/bin/env bash
# Fuzzes with libFuzzer: builds every target with clang 19, the whole library under coverage, AddressSanitizer and
# UndefinedBehaviorSanitizer; runs each from the seeds and the committed corpus; makes the corpus minimal again.
#
#   tests/fuzz/run.sh MINUTES [TARGET...]        whole minutes; targets: bundle delta capi rows csv options tuning record http (default: all)
#
#   --keep         after MINUTES, or in their place: leaves tests/fuzz/corpus as it is
#   FUZZ_OUT=DIR   where found inputs, findings and logs go (default: build/fuzz/runs)
#   FUZZ_NICE=N    niceness (default: 10)
#
# A finding ends its target's run, is kept as FUZZ_OUT/<target>/finding-*, and makes the exit status 1; a program replays it:
# build/fuzz/bin/fuzz/fuzz_<target> FILE. The last lines are the figures of README.md. http is Go's own fuzzing of the
# service's request bodies, over the release build (stage `go` of tests/run.sh makes what it needs).
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
ROOT="$PWD"
. tests/run.d/configure.sh

ALL=(bundle delta capi rows csv options tuning record http)
declare -A MOST=([bundle]=16384 [delta]=65536 [capi]=2048 [rows]=2048 [csv]=2048 [options]=512 [tuning]=2048 [record]=4096)
LIMITS=(-timeout=600 -report_slow_units=600 -rss_limit_mb=2048 -malloc_limit_mb=512)

help() { sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; }

parse() {
  MINUTES="" TARGETS=() KEEP=no
  while [ $# -gt 0 ]; do
    case "$1" in
      -h | --help) help; exit 0 ;;
      --keep) KEEP=yes ;;
      [0-9]*) [[ "$1" =~ ^[1-9][0-9]*$ ]] || { echo "'$1' is no whole number of minutes" >&2; exit 2; }; MINUTES="$1" ;;
      *) case " ${ALL[*]} " in *" $1 "*) TARGETS+=("$1") ;; *) echo "no target '$1'; see --help" >&2; exit 2 ;; esac ;;
    esac
    shift
  done
  [ -n "$MINUTES" ] || { help; exit 2; }
  [ ${#TARGETS[@]} -gt 0 ] || TARGETS=("${ALL[@]}")
}

build() {
  local names=() target
  for target in "${TARGETS[@]}"; do [ "$target" = http ] || names+=("fuzz_$target"); done
  [ ${#names[@]} -gt 0 ] || return 0
  configure fuzz && ninja -C build/fuzz "${names[@]}"
}

# merge TARGET COMMITTED FOLDER...: the inputs that together reach every edge, as the committed corpus. A name of libFuzzer's is
# the input's SHA-1; what has another was put there by somebody, such as a finding, and stays.
merge() {
  local target="$1" committed="$2" fresh="$OUT/$1/minimal" input
  shift
  rm -rf "$fresh"
  mkdir -p "$fresh"
  "build/fuzz/bin/fuzz/fuzz_$target" -set_cover_merge=1 -use_counters=0 -max_len="${MOST[$target]}" "${LIMITS[@]}" "$fresh" "$@" \
    >"$OUT/$target/merge.log" 2>&1 || { tail -n 20 "$OUT/$target/merge.log"; return 1; }
  for input in "$committed"/*; do
    [ ! -f "$input" ] || [[ "${input##*/}" =~ ^[0-9a-f]{40}$ ]] || cp "$input" "$fresh/" || return 1
  done
  rm -rf "tests/fuzz/corpus/$target"
  mkdir -p tests/fuzz/corpus
  if is_archive "$target"; then pack "$fresh" "$target"; else mv "$fresh" "tests/fuzz/corpus/$target"; fi
}

# Bundles are much alike: an archive, the same for the same inputs.
is_archive() { [ "$1" = bundle ] || [ "$1" = delta ]; }

pack() {
  /usr/bin/python3 - "$1" "tests/fuzz/corpus/$2.tar.xz" <<'PY'
import pathlib
import sys
import tarfile

with tarfile.open(sys.argv[2], "w:xz") as archive:
    for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):
        entry = tarfile.TarInfo(path.name)
        entry.size = path.stat().st_size
        with path.open("rb") as data:
            archive.addfile(entry, data)
PY
}

# committed TARGET: the folder of the committed corpus, unpacked where it is an archive.
committed() {
  if ! is_archive "$1"; then
    mkdir -p "tests/fuzz/corpus/$1" && echo "tests/fuzz/corpus/$1"
    return
  fi
  rm -rf "$OUT/$1/committed"
  mkdir -p "$OUT/$1/committed"
  [ ! -e "tests/fuzz/corpus/$1.tar.xz" ] ||
    cmake -E chdir "$OUT/$1/committed" cmake -E tar xf "$ROOT/tests/fuzz/corpus/$1.tar.xz"
  echo "$OUT/$1/committed"
}

# figures TARGET LOG: one line of the README's table.
figures() {
  local log="$2" inputs loaded predicted edges
  read -r inputs loaded predicted < <(sed -n 's/^dpi_fuzz [a-z]*: \([0-9]*\) inputs, \([0-9]*\) loaded, \([0-9]*\) predicted/\1 \2 \3/p' "$log")
  edges="$(grep -oE 'cov: [0-9]+' "$log" | tail -n 1 | cut -d' ' -f2)"
  awk -v t="$1" -v m="$MINUTES" -v n="${inputs:-0}" -v l="${loaded:-0}" -v p="${predicted:-0}" -v e="${edges:-0}" -v d="$(date +%F)" \
    -v c="$(git rev-parse --short HEAD)" 'BEGIN { printf "| %s | %s | %d | %d | %.1f %% | %.1f %% | %s | %s |\n", t, m, n, e, n ? 100 * l / n : 0, n ? 100 * p / n : 0, d, c }'
}

fuzz() {
  local target="$1" folder="$OUT/$1" log="$OUT/$1/log" status=0 before
  mkdir -p "$folder/found"
  before="$(committed "$target")"
  nice -n "${FUZZ_NICE:-10}" "build/fuzz/bin/fuzz/fuzz_$target" "${LIMITS[@]}" -max_len="${MOST[$target]}" -detect_leaks=0 \
    -max_total_time=$((MINUTES * 60)) -print_final_stats=1 -artifact_prefix="$folder/finding-" \
    "$folder/found" "$before" "$OUT/seeds/$target" >"$log" 2>&1 || status=$?
  if [ $status -ne 0 ]; then
    echo "$target: a finding, see $log"
    grep -vE 'NEW|REDUCE|pulse|^"' "$log" | tail -n 40
    return 1
  fi
  FIGURES+="$(figures "$target" "$log")"$'\n'
  [ "$KEEP" = yes ] || merge "$target" "$before" "$OUT/seeds/$target" "$folder/found"
}

# Go keeps what it finds in its cache, and a failing input in testdata/fuzz, where `go test` replays it.
fuzz_http() {
  local samples="$ROOT/build/release/go/samples/go" log="$OUT/http.log"
  export DPI_ROOT="$ROOT" DPI_BIN="$ROOT/build/release/bin" PKG_CONFIG_PATH="$ROOT/build/release/pkgconfig" GOFLAGS=-mod=readonly \
    GOPROXY=off GO111MODULE=on CGO_ENABLED=1
  (cd "$samples/scoreservice" && nice -n "${FUZZ_NICE:-10}" go test -run '^$' -fuzz FuzzRequestBody -fuzztime "${MINUTES}m" .) >"$log" 2>&1 ||
    { echo "http: a finding, see $log"; tail -n 30 "$log"; return 1; }
  FIGURES+="http: $(grep -E '^fuzz: elapsed' "$log" | tail -n 1)"$'\n'
}

main() {
  parse "$@"
  OUT="${FUZZ_OUT:-$ROOT/build/fuzz/runs}"
  mkdir -p "$OUT"
  build || exit 1
  rm -rf "$OUT/seeds"
  PYTHONPATH=weights/python /usr/bin/python3 tests/fuzz/make_seeds.py "$OUT/seeds" || exit 1
  export DPI_TEST_ROOT="$ROOT" UBSAN_OPTIONS=print_stacktrace=1
  # Leaks are looked for when the corpus is replayed; after each input they would take half of the time.
  export ASAN_OPTIONS=quarantine_size_mb=16:malloc_context_size=12
  local target failed=0
  FIGURES=""
  for target in "${TARGETS[@]}"; do
    if [ "$target" = http ]; then fuzz_http || failed=1; else fuzz "$target" || failed=1; fi
  done
  printf '\n| target | minutes | executions | edges | inputs that load | and predict | date | commit |\n%s' "$FIGURES"
  du -sh tests/fuzz/corpus
  exit $failed
}

main "$@"
