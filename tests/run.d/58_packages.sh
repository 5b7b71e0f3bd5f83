# Packages: the .debs, their contents, lintian, import dpi, the site, equal bytes (--full: compiled anew elsewhere, .rpms, a clean Debian root).
# minutes: 8
packages build test bindings packages docs
form=(--short)
[ "$FULL" != 1 ] || form=()
log="$(mktemp)"
tests/packaging/run.sh "${form[@]}" --jobs "$JOBS" | tee "$log"
status=${PIPESTATUS[0]}
passed="$(grep -c '^passed: ' "$log")" failed="$(grep -c '^FAILED: ' "$log")" skipped="$(grep -c '^skipped: ' "$log")"
rm -f "$log"
[ "$status" -eq 0 ] || [ "$failed" -gt 0 ] || failed=1
count "$passed" "$failed" "$skipped"
exit 0
