#!/usr/bin/env bash
# The table of stages in tests/README.md, between the lines BEGIN and END. tests/run.sh reads it in every run and writes it with --times.
# Run by itself, after a stage was added or its head changed, this script writes the rows anew and keeps their times.
#
#   | `build` | What it does. | cold | warm | CPU cold | CPU warm | cold 2026-11-28 vm, 2 jobs; warm 2026-11-28 vm, 2 jobs |
#
# Times are minutes with one digit behind the point. A cell is empty until somebody measures it.
TABLE=tests/README.md
BEGIN='<!-- stages: begin -->'
END='<!-- stages: end -->'
DEFAULT_MINUTES=5  # of a stage whose cold run nobody measured
SLACK_SECONDS=20   # no stage is called slower for less than this

stage_name() { basename "$1" .sh | sed 's/^[0-9]*_//'; }
stage_about() { sed -n '1s/^# //p' "$1"; }
stage_when() { sed -n '/^# when: */{s///p;q}' "$1" | grep . || echo always; }

stage_is_beside() { grep -q '^# beside: ' "$1"; }

stage_ahead() { sed -n '/^# ahead: */{s///p;q}' "$1"; }

has_table() { [ "$(grep -cxF -e "$BEGIN" -e "$END" "$TABLE" 2>/dev/null)" = 2 ]; }

# cell NAME COLUMN: a stage's cell; columns are about, cold, warm, cpu_cold, cpu_warm and measured.
cell() {
  local columns=(_ _ about cold warm cpu_cold cpu_warm measured) at
  for at in "${!columns[@]}"; do [ "${columns[at]}" != "$2" ] || break; done
  [ -f "$TABLE" ] || return 0
  sed -n "/^$BEGIN\$/,/^$END\$/p" "$TABLE" | awk -F ' *[|] *' -v name="\`$1\`" -v column=$((at + 1)) '$2 == name { print $column }'
}

# as_minutes SECONDS
as_minutes() { printf '%d.%d' $((($1 + 3) / 60)) $((($1 + 3) % 60 / 6)); }

# as_seconds MINUTES: of a cell; 0 for an empty one.
as_seconds() {
  [[ $1 =~ ^([0-9]+)(\.([0-9]))?$ ]] || { echo 0; return; }
  echo $((BASH_REMATCH[1] * 60 + ${BASH_REMATCH[3]:-0} * 6))
}

# cold_minutes NAME: whole minutes, rounded up, that the stage takes where nothing is cached.
cold_minutes() {
  local cold
  cold="$(cell "$1" cold)"
  if [ -n "$cold" ]; then echo $((($(as_seconds "$cold") + 59) / 60)); else echo "$DEFAULT_MINUTES"; fi
}

# slower NAME SECONDS: says so if the stage took half as long again as the table says, and SLACK_SECONDS more. A run does not know what was
# cached, so the larger of the stage's two times counts: between warm and cold nothing is wrong.
slower() {
  local cold warm known
  cold="$(cell "$1" cold)" warm="$(cell "$1" warm)"
  [ -n "$cold$warm" ] || return 0
  known="$(as_seconds "$cold")"
  [ "$(as_seconds "$warm")" -le "$known" ] || known="$(as_seconds "$warm")"
  [ $(($2 * 2)) -gt $((known * 3)) ] && [ $(($2 - known)) -gt "$SLACK_SECONDS" ] || return 0
  printf 'took %s min, the table says %s' "$(as_minutes "$2")" "$(as_minutes "$known")"
}

# cpu_seconds: processor time of all children that this shell has waited for, and of theirs. Not in a subshell: it has other children.
# The result is in CPU_SECONDS.
cpu_seconds() {
  local user system part
  times >"$RUN/times.$BASHPID"  # two lines: this shell, its children
  { read -r _; read -r user system; } <"$RUN/times.$BASHPID"
  CPU_SECONDS=0
  for part in "$user" "$system"; do
    [[ $part =~ ^([0-9]+)m([0-9]+) ]] && CPU_SECONDS=$((CPU_SECONDS + BASH_REMATCH[1] * 60 + BASH_REMATCH[2]))
  done
}

# write_table [NAME KIND SECONDS CPU_SECONDS]: a row for each stage in the order of tests/run.d, with this measurement of kind cold or
# warm. The other cells stay as they are.
# shellcheck disable=SC2120
write_table() {
  local file
  has_table || { echo "$TABLE has no lines '$BEGIN' and '$END'" >&2; return 1; }
  {
    sed "/^$BEGIN\$/q" "$TABLE"
    echo '| stage | what it does | minutes cold | minutes warm | CPU minutes cold | CPU minutes warm | measured |'
    echo '|---|---|---|---|---|---|---|'
    for file in tests/run.d/[0-9]*.sh; do table_row "$file" "$@"; done
    sed -n "/^$END\$/,\$p" "$TABLE"
  } >"$TABLE.new" && cat "$TABLE.new" >"$TABLE" && rm "$TABLE.new"
}

table_row() {  # FILE, and what write_table got
  local name when cold warm cpu_cold cpu_warm measured
  name="$(stage_name "$1")" when="$(stage_when "$1")"
  cold="$(cell "$name" cold)" warm="$(cell "$name" warm)" cpu_cold="$(cell "$name" cpu_cold)" cpu_warm="$(cell "$name" cpu_warm)"
  measured="$(cell "$name" measured)"
  if [ "${2:-}" = "$name" ]; then
    printf -v "$3" '%s' "$(as_minutes "$4")"
    printf -v "cpu_$3" '%s' "$(as_minutes "$5")"
    measured="$(measured_by "$measured" "$3")"
  fi
  [ "$when" = always ] && when="" || when=" (\`--$when\`)"
  printf '| `%s` | %s%s | %s | %s | %s | %s | %s |\n' "$name" "$(stage_about "$1")" "$when" "$cold" "$warm" "$cpu_cold" "$cpu_warm" "$measured"
}

# measured_by OLD KIND: when and where each kind was measured, KIND here and today.
measured_by() {
  local part kept=""
  while read -r part; do
    [ -z "$part" ] || [ "${part%% *}" = "$2" ] || kept+="; $part"
  done < <(tr ';' '\n' <<<"$1")
  echo "$2 $(date +%F) $(uname -n), $JOBS jobs$kept"
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  cd "$(dirname "$0")/../.." && write_table
fi
