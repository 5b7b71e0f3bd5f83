# C and C++ tests under AddressSanitizer and UndefinedBehaviorSanitizer (fault injection with --full).
# when: sanitizers
# beside: it builds in a folder of its own, with all processors, and the stages before it do not use them all
areas=(bundle encode ops graph plan backend store engine runtime stream capi kernels emu e2e tools fuzz soak)
[ "$FULL" = 1 ] && areas+=(injection plugin rocksdb redis)  # minutes of forks, of servers
targets=()
for area in "${areas[@]}"; do targets+=("dpi_tests_$area"); done
export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1
configure asan && build asan "${targets[@]}" dpi_program || exit 1
# An ordinary run leaves out what a sanitizer sees elsewhere or not at all: the engine over ref is the engine over cpu (ref's own kernels
# run in area kernels); the C API over the emulated GPU is that over cpu, but where rows on the device change; planted faults and what they are
# planted in test a test; ops_complete compiles, and runs nothing that was built here.
left=()
host='capi_(predict|errors|numbers|rows|tables|lifetime|log|metrics|endpoint|endpoint_swap|endpoint_believed)_test.cuda_emu'
[ "$FULL" = 1 ] || left=(-E "^$host\$"'|^(capi|runtime)_.*\.ref$|\.planted_|^emu_planted|^ops_complete$|^soak\.callers$')
run_ctest asan -L "^($(IFS='|'; echo "${areas[*]}"))$" "${left[@]}"
