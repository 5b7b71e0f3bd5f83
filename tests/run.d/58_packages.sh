# The .deb packages: contents, lintian, import dpi, reproducible bytes (--full: rebuilt elsewhere, .rpms, a clean Debian root).
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
