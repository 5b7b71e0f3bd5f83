# shellcheck shell=bash
# The second lane of tests/run.sh: stages with a line `# beside:` run one after another beside the others. Most stages keep one processor
# busy, or wait for a server; the builds under a sanitizer fill what they leave.
#
# The lane begins after the run's first stage, and only in a run without --only. A stage waits for those of the lane with smaller numbers, so it
# can use what they built. The lane's output is kept, and shown when the run waits for it.
#
# A process of its own runs the lane. It is no child of the run, whose processor time would count in whatever stage is running when it ends.

BESIDE=()  # the lane's stages whose results the run does not have yet
LANE=""    # the lane's process

# start_beside STAGE_FILE: begins the lane with the wanted stages behind that file.
start_beside() {
  local file
  [ -z "$ONLY" ] || return 0
  for file in tests/run.d/[0-9]*.sh; do
    [[ $file > $1 ]] && wanted "$file" && stage_is_beside "$file" || continue
    BESIDE+=("$file")
    printf '\n=== %s: begins beside the others\n' "$(stage_name "$file")"
  done
  [ "${#BESIDE[@]}" -gt 0 ] || return 0
  (run_lane "${BESIDE[@]}" </dev/null >/dev/null 2>&1 & echo $! >"$RUN/lane")
  LANE="$(cat "$RUN/lane")"
}

# run_lane STAGE_FILE...: leaves two files of each stage: its output, and what it adds to the run, which is there when it has ended.
run_lane() {
  local file name
  COUNTS="$RUN/counts.beside" TIMES=""
  trap 'wait; exit 143' TERM
  for file in "$@"; do
    name="$(stage_name "$file")"
    passed=0 failed=0 skipped=0 SUMMARY="" VERDICT="" TOOK=0 CPU=0
    {
      left_out "$name" "$file" "$(stage_about "$file")" || run_stage "$name" "$file" "$(stage_about "$file")"
    } >"$RUN/beside.$name.log" 2>&1
    printf '%s\n' "$passed $failed $skipped $TOOK $CPU $VERDICT" "$SUMMARY" >"$RUN/beside.$name.new"
    mv "$RUN/beside.$name.new" "$RUN/beside.$name"
  done
}

# join_beside [STAGE_FILE]: waits for the lane's stages with smaller numbers than that file's, or for all, and adds what they counted.
join_beside() {
  while [ "${#BESIDE[@]}" -gt 0 ] && { [ $# = 0 ] || [[ ${BESIDE[0]} < $1 ]]; }; do
    show_until_ended "$(stage_name "${BESIDE[0]}")"
    add_beside "${BESIDE[0]}"
    BESIDE=("${BESIDE[@]:1}")
  done
}

# show_until_ended NAME: the lane's stage, its output until now and as it comes.
show_until_ended() {
  local log="$RUN/beside.$1.log" shown=0 size
  while :; do
    local ended=0
    [ ! -e "$RUN/beside.$1" ] && kill -0 "$LANE" 2>/dev/null || ended=1
    size="$(stat -c %s "$log" 2>/dev/null || echo 0)"
    [ "$size" = "$shown" ] || tail -c "+$((shown + 1))" "$log" | head -c "$((size - shown))"
    shown="$size"
    [ $ended = 0 ] || return 0
    sleep 0.5
  done
}

# add_beside STAGE_FILE: what it counted, its line of the summary, and its row of the table.
add_beside() {
  local name p=0 f=1 s=0 took=0 cpu=0 verdict=FAILED text="" result
  name="$(stage_name "$1")" result="$RUN/beside.$(stage_name "$1")"
  if [ -e "$result" ]; then
    { read -r p f s took cpu verdict; IFS= read -r text; } <"$result"
  else
    echo "the lane ended before the stage $name had a result"
    text="$(printf '  %-14s FAILED: its process ended without a result' "$name")"
  fi
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  SUMMARY+="$text"$'\n'
  [ -z "$TIMES" ] || [ "$verdict" != ok ] || does_more "$1" || write_table "$name" "$TIMES" "$took" "$cpu"
}

# end_beside: ends the lane if it still runs, and returns when its processes are gone.
end_beside() {
  [ -n "$LANE" ] && [ "${#BESIDE[@]}" -gt 0 ] || return 0
  end_tree "$LANE"
  while kill -0 "$LANE" 2>/dev/null; do sleep 0.1; done
  BESIDE=()
}
