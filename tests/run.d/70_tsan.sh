# Tests that start threads and those of the emulated GPU, under ThreadSanitizer (all tests with --full).
# when: sanitizers
# beside: it builds in a folder of its own, with all processors, and the stages before it do not use them all
areas=(runtime stream capi emu)
[ "$FULL" = 1 ] && areas+=(bundle encode ops graph plan backend store plugin engine redis kernels e2e)
targets=()
for area in "${areas[@]}"; do targets+=("dpi_tests_$area"); done
configure tsan && build tsan "${targets[@]}" || exit 1
# As in 60_asan.sh; and threads meet the emulated GPU in area runtime, so that capi needs it with --full only.
left=()
[ "$FULL" = 1 ] || left=(-E '^(capi|runtime)_.*\.ref$|^capi_.*\.cuda_emu$|\.planted_|^emu_planted')
run_ctest tsan -L "^($(IFS='|'; echo "${areas[*]}"))$" "${left[@]}"
