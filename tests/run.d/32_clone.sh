# The README's two commands in a copy of the tree: in order, then after each other (the whole of the second with --full).
# Compiled objects come from the compiler cache where the machine has one: the build stage put them there.
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
copy="$scratch/a copy" log="$scratch/log"
# Of the C++ tests those that find their files, programs and libraries by a path; what else is there shows in their number.
areas_here=(encode graph tools)
[ "$FULL" != 1 ] || areas_here+=(bundle store e2e)
small=graph  # the area that stands for the second command where only its set-up is in question

# in_copy COMMAND...: in the copy's root, the log only if it fails.
in_copy() {
  (cd "$copy" && "$@") >"$log" 2>&1 || { tail -n 60 "$log"; return 1; }
}
tests_of() { ctest --test-dir "$1/build/release" -N | sed -n 's/^Total Tests: //p'; }
# All tests are still registered in the copy's build folder, and the build knows them (ctest would list what an earlier
# configuration left).
nothing_lost() {
  local here there
  here="$(tests_of "$ROOT")" there="$(tests_of "$copy")"
  ninja -C "$copy/build/release" -t query "dpi_tests_$small" >/dev/null || return 1
  [ "${here:-0}" -gt 0 ] && [ "$here" = "$there" ] || { echo "${there:-no} tests in the copy, ${here:-none} here"; return 1; }
}
quickstart() { in_copy "$@" samples/quickstart.sh && grep -q '^  AUC .*training framework' "$log" && nothing_lost; }
second() { in_copy "$@" && grep -qE '^[1-9][0-9]* passed, 0 failed' "$log" && nothing_lost; }
both() { quickstart && second tests/run.sh --jobs "$JOBS" --only "$small"; }

# once COMMAND...: it compiles no object again that is there already.
once() {
  local before again
  before="$(find "$copy/build/release" -name '*.o' | sort)"
  touch "$scratch/stamp"
  "$@" || return 1
  again="$(comm -12 <(echo "$before") <(find "$copy/build/release" -name '*.o' -newer "$scratch/stamp" | sort))"
  [ -n "$before" ] || { echo "no object was there before"; return 1; }
  [ -z "$again" ] || { echo "compiled again: $(wc -l <<<"$again") objects"; head <<<"$again"; return 1; }
}

copy_tree() { mkdir "$copy" && tar -C "$ROOT" --exclude=./build --exclude=./.git -cf - . | tar -C "$copy" -xf -; }
check "a copy in a folder with a space in its name" copy_tree || exit 1
check "first command: samples/quickstart.sh" quickstart || exit 1
only=(--only setup)
[ "$FULL" != 1 ] || only+=(--only build)
for area in "${areas_here[@]}"; do only+=(--only "$area"); done
check "second command: C++ tests and what they need built; it compiles nothing again" once second tests/run.sh --jobs "$JOBS" "${only[@]}"
if [ "$FULL" = 1 ]; then
  # In a folder without a space: pkg-config's flags, as Go takes them, and the options of the Java tests are split at one.
  spaced="$copy" copy="$scratch/copy"
  check "another copy" copy_tree || exit 1
  (cd "$copy" && git init -q && git add -A)
  check "second command: tests/run.sh" second tests/run.sh --jobs "$JOBS" --skip clone
  rm -rf "$copy"
  copy="$spaced"
fi
check "first command after the second: it compiles nothing again" once quickstart
a_changed_file_is_compiled() { echo >>"$copy/samples/01_score_csv.c" && ! once quickstart >/dev/null; }
check "once() finds a changed file" a_changed_file_is_compiled
second_first() { rm -rf "$copy/build" && second tests/run.sh --jobs "$JOBS" --only "$small" && once quickstart; }
check "the second command first, then the first: it compiles nothing again" second_first

leave() { in_copy cmake "$@"; }
options=(-DDPI_DEVELOPER_MODE=OFF -DDPI_ONEDNN=OFF -DDPI_SANITIZE=thread -DCMAKE_BUILD_TYPE=Debug)
after_options() { leave build/release "${options[@]}" && "$@"; }
check "quickstart after other options" after_options quickstart
check "tests after other options" after_options second tests/run.sh --jobs "$JOBS" --only "$small"

moved() { mv "$copy" "$scratch/moved copy" && copy="$scratch/moved copy" && both; }
check "both in a tree that was moved, with its build folder" moved

another_generator() { rm -rf "$copy/build/release" && leave -G "Unix Makefiles" -S . -B build/release && both; }
check "both after another generator" another_generator

# As a user who can install nothing, and need not.
if [ "$(id -u)" != 0 ] || ! command -v setpriv >/dev/null; then
  echo "not root, or no setpriv: 'both as another user' is skipped"
  count 0 0 1
  exit 0
fi
as_nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups env HOME="$scratch/home" "$@"; }
another_user() {
  mkdir "$scratch/home" && chmod 755 "$scratch" && chown -R 65534:65534 "$scratch/home" "$copy" || return 1
  quickstart as_nobody && second as_nobody tests/run.sh --jobs "$JOBS" --only setup --only "$small"
}
check "both as another user" another_user
