#!/usr/bin/env bash
# Uses the Go module's release archive as somebody else would: with an installed libdpi, without SWIG and without a network, by a
# `replace` line and vendored. The scores are those of the C API.
#
#   module_test.sh BUILD       a release build with everything that is installed, and the target dpi_go
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build="$(cd "$1" && pwd -P)"
work="$(mktemp -d)"
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
generated="$build/go/bindings/go/internal/native"
for out in "$work/first" "$work/second"; do packaging/go/make_module.sh "$out" 1.2.0 bindings/go "$generated"; done
cmp "$work/first/dpi-go-1.2.0.tar.gz" "$work/second/dpi-go-1.2.0.tar.gz"

cmake --install "$build" --prefix "$work/prefix" >"$work/install.log"
config="$(find "$work/prefix" -name dpi.pc)"
library="$(dirname "$(find "$work/prefix" -name libdpi.so.1)")"

mkdir "$work/bin" "$work/consumer"
for name in swig swig4.0 swig4.1; do printf '#!/bin/sh\necho "swig was called" >&2\nexit 97\n' >"$work/bin/$name"; done
chmod +x "$work/bin"/*
tar -xzf "$work/first/dpi-go-1.2.0.tar.gz" -C "$work"
cp tests/bindings/consumer/main.go "$work/consumer/"
cat >"$work/consumer/go.mod" <<MOD
module example.org/consumer

go 1.19

require dpiframe.org/dpi v1.2.0

replace dpiframe.org/dpi => ../dpi-go-1.2.0
MOD
bundle="$PWD/weights/demo/adult_widedeep.h5"
want="$("$build/bin/tests/reference_scores" "$bundle" 33 7 plain)"
export PATH="$work/bin:$PATH" PKG_CONFIG_PATH="$(dirname "$config")" LD_LIBRARY_PATH="$library" GOPROXY=off CGO_ENABLED=1
unset CGO_CFLAGS CGO_LDFLAGS
cd "$work/consumer"

same() {  # how
  local got
  got="$("$work/consumer/program" "$bundle" 33 7)"
  [ "$got" = "$want" ] || { printf '%s:\n%s\nexpected\n%s\n' "$1" "$got" "$want"; exit 1; }
}
GOFLAGS=-mod=mod go build -o program .
ldd program | grep "libdpi.so.1 => $library/libdpi.so.1" >/dev/null
same "by replace"
GOFLAGS=-mod=mod go mod vendor
rm -rf "$work/dpi-go-1.2.0" program
GOFLAGS=-mod=vendor go build -o program .
same "vendored"
