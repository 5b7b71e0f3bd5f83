# clang-format on every C and C++ file, clang-tidy on a few (all with --full).
mapfile -t sources < <(git -c safe.directory="$ROOT" ls-files -co --exclude-standard '*.c' '*.h' '*.cpp' '*.hpp' '*.cu' '*.cuh' |
  while read -r file; do [ -f "$file" ] && echo "$file"; done)
[ ${#sources[@]} -gt 0 ] || { echo "git lists no source file here"; exit 1; }
formatted() { printf '%s\0' "${sources[@]}" | xargs -0 -P "$JOBS" -n 32 clang-format-19 --dry-run --Werror --ferror-limit=3; }
check "clang-format ($(clang-format-19 --version | grep -o '[0-9.]*' | head -1))" formatted

# Files of the release build; the fast subset is the error type, the file reader and the C API's wall.
mapfile -t tidied < <(printf '%s\n' "${sources[@]}" | grep -E '^(sdk/src|kernels/(ref|cpu)|capi/src)/.*\.cpp$')
if [ "$FULL" != 1 ]; then
  mapfile -t tidied < <(printf '%s\n' "${tidied[@]}" | grep -E '^(sdk/src/base|capi/src)/')
fi
tidy() {
  [ ${#tidied[@]} -gt 0 ] || return 1
  printf '%s\n' "${tidied[@]}" |
    xargs -P "$JOBS" -n 1 clang-tidy-19 -p "$BUILD/release" --quiet --extra-arg=-Wno-unknown-warning-option --warnings-as-errors='*' 2>&1 |
    grep -vE '^[0-9]+ warnings? generated|^Suppressed|^Use -header-filter'
  return "${PIPESTATUS[1]}"
}
check "clang-tidy on ${#tidied[@]} files" tidy
