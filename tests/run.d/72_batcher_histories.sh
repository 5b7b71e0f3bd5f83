# A million random histories of a batcher under ThreadSanitizer: one completion for each submit (every build runs 10,000).
# when: full
packages build test
configure tsan && build tsan dpi capi_batcher_histories_test || exit 1

# In as many processes as processors, each with seeds of its own. DPI_HISTORIES_ALL: fewer, for a first look.
histories() {
  local all="${DPI_HISTORIES_ALL:-1000000}" pids=() i status=0
  for ((i = 0; i < JOBS; i++)); do
    DPI_HISTORIES="$((all * i / JOBS + 1)) $((all * (i + 1) / JOBS))" OMP_NUM_THREADS=1 \
      TSAN_OPTIONS="suppressions=$ROOT/tests/support/tsan.supp:halt_on_error=1:exitcode=66" \
      "$BUILD/tsan/bin/tests/capi_tests" --device=cpu --source-file="*batcher_histories_test.cpp" --test-case="random histories" \
      >"$RUN/histories.$i" 2>&1 &
    pids+=($!)
  done
  for i in "${!pids[@]}"; do
    wait "${pids[i]}" && grep -q ' 1 passed' "$RUN/histories.$i" || { tail -n 40 "$RUN/histories.$i"; status=1; }
  done
  return $status
}
check "${DPI_HISTORIES_ALL:-1000000} random histories of a batcher" histories
exit 0
