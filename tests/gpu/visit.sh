#!/usr/bin/env bash
# A visit of fifteen minutes to a machine with a GPU, in two calls. rehearse.py adds up what they are estimated to take.
#
#   tests/gpu/visit.sh 1|2 [--dry-run] [--out FOLDER]     one of the calls, by validate.sh
#   tests/gpu/visit.sh --list                             both calls: stages, seconds, and the limits of stages
#
# The first says whether new code is right, then what the lookup reaches, what each choice of the design is worth, and what tables beyond the device
# cost. The second is beside PyTorch: the 48 cells of the paper, few rows, the strongest peers. Between them put the first one's tuning.txt into the
# pack: the second reads it.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
CALLS="ABC 365 A0=12 A1=8 A2=65 A3=50 A4=15 A5=25 B4=45 B5=40 C1=15 C2=85
B 392 B0=5 B1=170 B2=150 B3=62"

help() { sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; }

case "${1:-}" in
  1 | 2) ;;
  --list) printf '%s\n' "$CALLS"; exit 0 ;;
  -h | --help) help; exit 0 ;;
  *) help >&2; exit 2 ;;
esac
read -r stages seconds limits <<<"$(sed -n "$1p" <<<"$CALLS")"
shift
only=()
for limit in $limits; do only+=(--only "$limit"); done
exec bash "$here/validate.sh" "$stages" --seconds "$seconds" "${only[@]}" "$@"
