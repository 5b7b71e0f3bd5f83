# Go's sample service reloads under load over the library under ThreadSanitizer.
# when: sanitizers
# By cgo it knows how goroutines wait for each other. Java's service starts under it too, but the sanitizer does not see how a virtual
# machine's threads wait for each other: each worker that one hands to the next is a race to it, and so is the machine's own heap.
# tests/capi/endpoint_service_test.cpp does what both services do, in stage tsan.
packages build test bindings
configure tsan && build tsan dpi || exit 1
[ -d "$BUILD/release/go/samples/go" ] || { echo "no staged module: the stage go makes what this one needs"; exit 1; }

# go_build FOLDER OUTPUT
go_build() {
  (cd "$1" && env CC=clang-19 CXX=clang++-19 PKG_CONFIG_PATH="$BUILD/tsan/pkgconfig" GOFLAGS=-mod=readonly GOPROXY=off GO111MODULE=on CGO_ENABLED=1 \
    CGO_CFLAGS=-fsanitize=thread CGO_LDFLAGS=-fsanitize=thread go build -o "$2" "${@:3}")
}
options="suppressions=$ROOT/tests/support/tsan.supp:halt_on_error=1:exitcode=66"

if check "the Go service builds with -fsanitize=thread" go_build "$BUILD/release/go/samples/go" "$BUILD/tsan/bin/scoreservice" ./scoreservice; then
  DPI_TEST_SERVICE="$(printf '%q ' env OMP_NUM_THREADS=1 TSAN_OPTIONS="$options" "$BUILD/tsan/bin/scoreservice")"
  export DPI_TEST_SERVICE
  run_pytest tests/bindings/services/reload_test.py
fi

go_is_watched() {
  local work log
  work="$(mktemp -d)"
  printf 'module race\n\ngo 1.19\n' >"$work/go.mod"
  cat >"$work/main.go" <<'GO'
package main

/*
#include <pthread.h>
static int n;
static void* add(void* p) {
  for (int i = 0; i < 1000; i++) n++;
  return p;
}
static int race(void) {
  pthread_t t[2];
  for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, add, 0);
  for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
  return n;
}
*/
import "C"
import "fmt"

func main() { fmt.Println("not seen", C.race()) }
GO
  go_build "$work" "$work/race" . && log="$(TSAN_OPTIONS="$options" "$work/race" 2>&1)"
  local status=$?
  rm -rf "$work"
  [ $status -eq 66 ] && grep -q 'data race' <<<"$log" || { tail -n 20 <<<"$log"; return 1; }
}
check "the sanitizer sees a race below Go" go_is_watched
exit 0
