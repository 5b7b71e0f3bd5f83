#!/usr/bin/env bash
# From a fresh Debian 12 machine to scored rows: installs what is missing, builds Release (CPU only), and scores the held-out
# rows of each demo bundle from their raw CSV through dpi_predict(), beside what the training framework got. The first scores
# come as soon as the library is built; the program dpi, which computes the AUC, is built after them.
#
#   samples/quickstart.sh [--all] [--help]
#
#   --all   all demo bundles (default: adult_widedeep only)
#
# Repeatable: what is installed and built stays. Needs root or sudo only if packages are missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

DEMOS=(adult_widedeep:adult_test.csv)
MORE=(bank_dcnv2:bank_test.csv msweb_deepfm:msweb_test.csv)
BIN=build/release/bin
export NINJA_STATUS='[%f/%t] '  # what progress reads

say() { printf '\n==> %s\n' "$*"; }

# build TARGET: one line that counts on a terminal, else a line every 20 seconds. A compiler's messages are shown as they are.
build() { cmake --build --preset release --target "$1" 2>&1 | progress; }
progress() {
  local line text="" shown="" next=$SECONDS
  while IFS= read -r line; do
    if ! [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]]; then
      [ ! -t 1 ] || [ -z "$text" ] || printf '\n'
      printf '%s\n' "$line"
      continue
    fi
    text="building: ${BASH_REMATCH[1]} of ${BASH_REMATCH[2]} steps done, $((BASH_REMATCH[2] - BASH_REMATCH[1])) left"
    if [ -t 1 ]; then
      printf '\r%s ' "$text"
    elif [ $SECONDS -ge $next ]; then
      printf '%s\n' "$text"
      shown="$text" next=$((SECONDS + 20))
    fi
  done
  if [ -t 1 ]; then [ -z "$text" ] || printf '\n'; elif [ "$text" != "$shown" ]; then printf '%s\n' "$text"; fi
}

for arg in "$@"; do
  case "$arg" in
    --all) DEMOS+=("${MORE[@]}") ;;
    -h | --help) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) echo "unknown argument '$arg'; see --help" >&2; exit 2 ;;
  esac
done

cat <<'TEXT'
What this takes:
  packages  up to 87 MiB to download, on a bare Debian 12; nothing once they are installed
  build     about 5 minutes on two cores, the first scores after 4; about 1 minute from a filled compiler cache (ccache)
  scores    seconds
A later run builds only what has changed.
TEXT

say "1/4 packages"
packaging/setup.sh build

say "2/4 build the library (release, CPU)"
# The preset states every option of the project, as tests/run.sh does, so that either leaves a folder that the other goes on
# with. A folder that another generator or another place made is configured afresh.
settings=(--preset release --log-level=NOTICE -DDPI_CUDA=OFF)
cmake "${settings[@]}" || cmake --fresh "${settings[@]}"
build score_csv

say "3/4 first scores"
bundle="weights/demo/${DEMOS[0]%%:*}.h5"
rows="weights/demo/${DEMOS[0]##*:}"
scores="build/release/quickstart_scores"
DPI_DEVICE=cpu "$BIN/score_csv" "$bundle" "$rows" >"$scores"  # whole: head would end a pipe early, and pipefail call that a failure
printf '%s %s %s | head\n' "$BIN/score_csv" "$bundle" "$rows"
head "$scores"
printf '%d rows scored\n' "$(wc -l <"$scores")"
rm "$scores"

say "4/4 build the program dpi, and compare with the training framework"
build dpi_program
for demo in "${DEMOS[@]}"; do
  bundle="weights/demo/${demo%%:*}.h5"
  rows="weights/demo/${demo##*:}"
  printf '\n%s, rows of %s\n' "$bundle" "$rows"
  "$BIN/dpi" predict "$bundle" "$rows" --device cpu --raw --label label --summary
done

say "next"
cat <<'TEXT'
build/release/bin/dpi inspect weights/demo/adult_widedeep.h5     what a bundle holds
build/release/bin/dpi plan weights/demo/bank_dcnv2.h5            how it is run
samples/README.md                                                the C and C++ samples
tests/run.sh                                                     the tests
TEXT
