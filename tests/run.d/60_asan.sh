# C and C++ tests under AddressSanitizer and UndefinedBehaviorSanitizer (fault injection with --full).
# when: sanitizers
areas=(bundle encode ops graph plan backend store engine runtime stream capi kernels emu e2e tools fuzz soak)
[ "$FULL" = 1 ] && areas+=(injection plugin rocksdb redis)  # minutes of forks, of servers
targets=()
for area in "${areas[@]}"; do targets+=("dpi_tests_$area"); done
export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1
configure asan && build asan "${targets[@]}" dpi_program || exit 1
run_ctest asan -L "^($(IFS='|'; echo "${areas[*]}"))$"
