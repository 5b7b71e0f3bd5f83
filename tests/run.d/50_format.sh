# clang-format on every C and C++ file, clang-tidy on a few and on changed ones (all with --full).
mapfile -t sources < <(git -c safe.directory="$ROOT" ls-files -co --exclude-standard '*.c' '*.h' '*.cpp' '*.hpp' '*.cu' '*.cuh' |
  while read -r file; do [ -f "$file" ] && echo "$file"; done)
[ ${#sources[@]} -gt 0 ] || { echo "git lists no source file here"; exit 1; }
formatted() { printf '%s\0' "${sources[@]}" | xargs -0 -P "$JOBS" -n 32 clang-format-19 --dry-run --Werror --ferror-limit=3; }
check "clang-format ($(clang-format-19 --version | grep -o '[0-9.]*' | head -1))" formatted

# clang-tidy takes about 15 s of a core for a file of the release build. Without --full it checks the error type, the file reader, the C API's wall,
# and the files that changed since the commit TIDY_BASE, newest first, at most MOST_CHANGED of them. TIDY_BASE is by default the commit where the
# branch left main; on main, or without it, ten commits ago.
MOST_CHANGED=4
changed_since() {
  local git=(git -c safe.directory="$ROOT") base="${TIDY_BASE:-}"
  if [ -z "$base" ]; then
    base="$("${git[@]}" merge-base HEAD main 2>/dev/null)"
    { [ -n "$base" ] && [ "$base" != "$("${git[@]}" rev-parse HEAD)" ]; } || base=HEAD~10
    "${git[@]}" rev-parse --quiet --verify "$base^{commit}" >/dev/null || base="$("${git[@]}" rev-list --max-parents=0 HEAD | tail -n 1)"
  fi
  "${git[@]}" diff --name-only HEAD && "${git[@]}" ls-files -o --exclude-standard && "${git[@]}" log --format= --name-only "$base..HEAD"
}
mapfile -t tidied < <(printf '%s\n' "${sources[@]}" | grep -E '^(sdk/src|kernels/(ref|cpu)|capi/src)/.*\.cpp$')
if [ "$FULL" != 1 ]; then
  changed="$(changed_since)" || { echo "no commit TIDY_BASE=${TIDY_BASE:-} here"; exit 1; }
  mapfile -t changed < <(awk '!seen[$0]++' <<<"$changed" | grep -Fxf <(printf '%s\n' "${tidied[@]}") | grep -vE '^(sdk/src/base|capi/src)/')
  mapfile -t tidied < <(printf '%s\n' "${tidied[@]}" | grep -E '^(sdk/src/base|capi/src)/')
  tidied+=("${changed[@]:0:MOST_CHANGED}")
  [ ${#changed[@]} -le $MOST_CHANGED ] || printf 'not checked by clang-tidy, which --full does: %s\n' "${changed[*]:MOST_CHANGED}"
fi
tidy() {
  [ ${#tidied[@]} -gt 0 ] || return 1
  printf '%s\n' "${tidied[@]}" |
    xargs -P "$JOBS" -n 1 clang-tidy-19 -p "$BUILD/release" --quiet --extra-arg=-Wno-unknown-warning-option --warnings-as-errors='*' 2>&1 |
    grep -vE '^[0-9]+ warnings? generated|^Suppressed|^Use -header-filter'
  return "${PIPESTATUS[1]}"
}
check "clang-tidy on ${#tidied[@]} files" tidy
