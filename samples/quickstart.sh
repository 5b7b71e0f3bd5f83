#!/usr/bin/env bash
# From a fresh Debian 12 machine to scored rows: installs what is missing, builds Release (CPU only), and scores the held-out
# rows of each demo bundle from their raw CSV through dpi_predict(), beside what the training framework got.
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

say() { printf '\n==> %s\n' "$*"; }

for arg in "$@"; do
  case "$arg" in
    --all) DEMOS+=("${MORE[@]}") ;;
    -h | --help) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) echo "unknown argument '$arg'; see --help" >&2; exit 2 ;;
  esac
done

say "1/3 packages"
packaging/setup.sh build

say "2/3 build (release, CPU)"
# The preset states every option of the project, as tests/run.sh does, so that either leaves a folder that the other goes on
# with. A folder that another generator or another place made is configured afresh.
settings=(--preset release --log-level=NOTICE -DDPI_CUDA=OFF)
cmake "${settings[@]}" || cmake --fresh "${settings[@]}"
cmake --build --preset release --target dpi_program score_csv

say "3/3 score"
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
build/release/bin/score_csv weights/demo/adult_widedeep.h5 weights/demo/adult_test.csv | head
samples/README.md                                                the C and C++ samples
TEXT
