# aarch64, cross-compiled, under qemu: the kernels of every NEON set, the tests of kernels, plan, backend, runtime, capi and e2e, packages, bindings.
# when: full
packages build test aarch64
tree="$BUILD/aarch64"
# What the wheel is compiled with, and what runs it and the JAR.
whole=() swig=""
if [ "$FULL" = 1 ]; then
  whole=(--whole libpython3-dev python3-numpy default-jre-headless)
  packages bindings packages
  swig="$(packaging/swig.sh "$BUILD/swig")" || { swig=""; echo "skipped: the wheel, the JAR and the Go module for arm64: no SWIG 4.2 or later"; count 0 0 1; }
fi
check "headers and archives of arm64" packaging/sysroot.sh "$BUILD/sysroot-arm64" "${whole[@]}" || exit 1
configure aarch64 -DDPI_STABLE_SWIG="$swig" && build aarch64 bench_tests || exit 1

# on CPU [FILTER...]: the kernels' own tests on an emulated processor, which chooses among the sets that it has.
all=max,pauth-impdef=on  # bfmmla and smmla too
on() { qemu-aarch64 -cpu "$1" -L /usr/aarch64-linux-gnu "$tree/bin/tests/bench_tests" "${@:2}"; }

# Two cases that compare large products with float64 take longer than all others.
large=",int8: sums agree*,int8: more rows*"
[ "$FULL" != 1 ] || large=""
check "kernels in fp32, bf16 and int8" on "$all" "-tce=int8: every set*$large"

# A set that the processor lacks is left out, so each must have more to compare than the one before.
int8_by_processor() {
  local cpu said count last=0
  for cpu in cortex-a72 cortex-a76 "$all"; do
    said="$(on "$cpu" "-tc=int8: every set*")" || { echo "$said"; return 1; }
    count="$(sed -n 's/^\[doctest\] assertions: *\([0-9]*\) .*/\1/p' <<<"$said")"
    echo "$cpu: $count comparisons"
    [ "$count" -gt "$last" ] || return 1
    last="$count"
  done
}
check "int8 in plain NEON, with dot products, with smmla: the bytes of the scalar set" int8_by_processor
check "inner loops of products multiply in 90 % of their slots" "$PYTHON" tests/bench/tile_loops.py "$tree" --objdump aarch64-linux-gnu-objdump

[ "$FULL" = 1 ] || exit 0  # `--only aarch64` without --full: a short form
build aarch64 dpi dpi_program || exit 1
check "demo models, the program, C programs" tests/packaging/aarch64_test.sh "$tree"
# Left out: the first two keep a real processor busy for some milliseconds a call, which takes the emulator many minutes (capi_lifetime_test.ref stays);
# the third measures the process's memory, which is the emulator's.
left_out='^(capi_lifetime_test[.]cpu|runtime_threads_test[.](ref|cpu)|capi_unload_test)$'
areas=(kernels plan backend runtime capi e2e)
build aarch64 "${areas[@]/#/dpi_tests_}" && run_ctest aarch64 -L "^($(IFS="|"; echo "${areas[*]}"))\$" -E "$left_out"

# The packages, of the same objects, and what is unpacked of them at work; then the wheel, the JAR and the Go module: the commands of packaging/README.md.
out="$BUILD/packages-arm64"
check "the .debs and .rpms for arm64" packaging/build.sh --arch arm64 --out "$out" --trees "$BUILD" --no-debug --jobs "$JOBS" -- -DDPI_DEVELOPER_MODE=ON || exit 0
check "contents, dependencies, processor, rights, sums, links and manual pages of the .debs" "$PYTHON" tests/packaging/deb_test.py "$out"
check "lintian finds nothing" lintian --allow-root --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs "$out"/*.deb
check "the unpacked packages score, their samples compile" tests/packaging/arm64_test.sh "$out" "$BUILD/sysroot-arm64"
[ -n "$swig" ] || exit 0
build aarch64 dpi_jni dpi_python_package dpi_python_stable score_csv score_batch &&
  configure release -DDPI_JAR_NATIVES="$tree/lib" && build release dpi_program dpi_java dpi_go || exit 1
check "one JAR for two processors, the wheel for arm64, the Go module" tests/packaging/arm64_bindings_test.sh "$BUILD/release" "$tree" "$BUILD/sysroot-arm64"
configure release -DDPI_JAR_NATIVES= || exit 1  # the other stages look at this machine's
exit 0
