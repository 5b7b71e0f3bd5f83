#!/usr/bin/env bash
# Makes the packages for Debian and for systems with rpm, each with its bill of materials beside it. The same commit gives the same bytes.
#
#   packaging/build.sh [--arch ARCH] [--out DIR] [--trees DIR] [--revision N] [--formats "deb rpm"] [--no-debug] [--cuda DIR] [--jobs N]
#                      [-- CMAKE ARGUMENTS]
#
#   --arch ARCH     amd64 (default), or arm64, cross-compiled: the packages that differ by processor, as the others are made with those for amd64
#   --out DIR       where they go (default: build/packages, or build/packages-arm64); what lies there of an earlier call is removed
#   --trees DIR     where the library is built, in packages-debug or packages-plain, with -arm64 in the name (default: build); compiled files stay
#   --revision N    the number after the version's hyphen (default: 1)
#   --formats LIST  only these (default: both)
#   --no-debug      without debug symbols, and so without the packages of them
#   --cuda DIR      the build folder that has libdpi_cuda.so (default: build/cuda where it is there and up to date)
#   --jobs N        parallel compilations (default: the number of processors)
#
# Each step is told with the time since the start, a long one with what it takes in minutes of one processor. The compiler cache (ccache) makes
# the second call short.
#
# Times are SOURCE_DATE_EPOCH (default: the last commit's). packaging/setup.sh build bindings packages docs installs what is needed.
set -euo pipefail
shopt -s inherit_errexit
umask 022
caller_locale="${LC_ALL-}"
export LC_ALL=C.UTF-8 TZ=UTC

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
here="$ROOT/packaging/packages"
for part in common processor tree site deb rpm; do . "$here/$part.sh"; done

parse() {
  processor="" out="" trees="$ROOT/build" revision=1 formats="deb rpm" debug=yes cuda="" jobs="$(nproc)" cmake_arguments=()
  while [ $# -gt 0 ]; do
    case "$1" in
      --arch) processor="$2"; shift ;;
      --out) out="$2"; shift ;;
      --trees) trees="$2"; shift ;;
      --revision) revision="$2"; shift ;;
      --formats) formats="$2"; shift ;;
      --no-debug) debug=no ;;
      --cuda) cuda="$2"; shift ;;
      --jobs) jobs="$2"; shift ;;
      --) shift; cmake_arguments=("$@"); break ;;
      -h | --help) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
      *) fail "unknown argument '$1'; see --help" ;;
    esac
    shift
  done
  [[ "$revision" =~ ^[0-9]+$ ]] || fail "--revision takes a number"
}

main() {
  parse "$@"
  choose_processor
  [ -n "$out" ] || out="$ROOT/build/packages$([ $cross = no ] || echo "-$processor")"
  mkdir -p "$out" "$trees"
  out="$(cd "$out" && pwd -P)" trees="$(cd "$trees" && pwd -P)" stage="$out/stage"
  rm -rf "$stage" "$out"/*.deb "$out"/*.rpm "$out"/*.spdx.json
  mkdir -p "$stage"
  facts
  get_sysroot
  local format
  for format in $formats; do
    layout "$format"
    build_tree "$format"
    plugin_fits
    stage_tree "$format"
    divide "$format"
    each "$format" finish
    "make_${format}s"
  done
  rm -rf "$stage"
  say "$(find "$out" -maxdepth 1 -name '*.deb' | wc -l) .deb and $(find "$out" -maxdepth 1 -name '*.rpm' | wc -l) .rpm in $out"
}

main "$@"
