#!/usr/bin/env bash
# tests/run.d/times.sh: minutes and seconds, and when a stage counts as slower. tests/README.md has all stages and folders.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
. tests/run.d/times.sh
bad=0

# same ABOUT GOT WANTED
same() { [ "$2" = "$3" ] || { echo "FAILED: $1: '$2', expected '$3'"; bad=1; }; }

# The real table. tests/run.d/times.sh writes the rows anew where this fails.
real="$TABLE"
TABLE="$scratch/README.md"
cp "$real" "$TABLE"
write_table
cmp -s "$real" "$TABLE" || { echo "FAILED: a stage was added or its head changed: run tests/run.d/times.sh"; diff "$real" "$TABLE"; bad=1; }
same "the table has the stages" "$(grep -c '^| `[a-z_0-9]*` | .* |.* |.* |.* |.* |.* |$' "$TABLE")" "$(ls tests/run.d/[0-9]*.sh | wc -l)"
for folder in tests/[a-z]*/; do
  folder="$(basename "$folder")"
  grep -qE "^\| (\[\`$folder\`\]\($folder/README.md\)|\`$folder\`) \| [^|]+ \|\$" "$real" ||
    { echo "FAILED: tests/README.md has no row for the folder $folder"; bad=1; }
  [ -e "tests/$folder/README.md" ] && ! grep -q "($folder/README.md)" "$real" &&
    { echo "FAILED: tests/README.md links no $folder/README.md"; bad=1; }
done

for pair in 0:0.0 2:0.0 3:0.1 8:0.1 9:0.2 56:0.9 57:1.0 60:1.0 366:6.1 7199:120.0; do same "${pair%:*} s" "$(as_minutes "${pair%:*}")" "${pair#*:}"; done
for pair in :0 0.0:0 0.1:6 3:180 3.0:180 25.5:1530 x:0; do same "'${pair%:*}' min" "$(as_seconds "${pair%:*}")" "${pair#*:}"; done

printf '%s\n' "$BEGIN" '| `both` | Text. | 3.0 | 1.0 | 5.5 | 2.5 | cold estimated |' '| `warmer` | Text. | 1.0 | 3.0 | | | |' \
  '| `cold` | Text. | 3.0 | | | | |' '| `warm` | Text. | | 3.0 | | | |' '| `short` | Text. | 0.1 | | | | |' '| `none` | Text. | | | | | |' "$END" >"$TABLE"
for pair in about:Text. cold:3.0 warm:1.0 cpu_cold:5.5 cpu_warm:2.5 "measured:cold estimated"; do
  same "cell ${pair%:*}" "$(cell both "${pair%:*}")" "${pair#*:}"
done
same "the cold minutes" "$(cold_minutes both) $(cold_minutes short) $(cold_minutes warm) $(cold_minutes none) $(cold_minutes gone)" "3 1 5 5 5"

for name in both warmer cold warm; do
  same "$name: within half as long again" "$(slower "$name" 270)" ""
  same "$name: longer" "$(slower "$name" 271)" "took 4.5 min, the table says 3.0"
  same "$name: much longer" "$(slower "$name" 366)" "took 6.1 min, the table says 3.0"
done
same "between warm and cold" "$(slower both 150)" ""
same "20 s more" "$(slower short 26)" ""
same "21 s more" "$(slower short 27)" "took 0.5 min, the table says 0.1"
same "nothing to compare with" "$(slower none 9000)$(slower gone 9000)" ""
exit $bad
