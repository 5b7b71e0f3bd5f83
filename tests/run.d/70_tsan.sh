# Tests that start threads and those of the emulated GPU, under ThreadSanitizer (all tests with --full).
# when: sanitizers
areas=(runtime stream capi emu)
[ "$FULL" = 1 ] && areas+=(bundle encode ops graph plan backend store plugin engine redis kernels e2e)
targets=()
for area in "${areas[@]}"; do targets+=("dpi_tests_$area"); done
configure tsan && build tsan "${targets[@]}" || exit 1
run_ctest tsan -L "^($(IFS='|'; echo "${areas[*]}"))$"
