# shellcheck shell=bash
# The processor that the packages are for: this machine's, or arm64 by cross compilation.

# choose_processor: where the packages are for another processor than this machine's, `cross` is yes, dpkg's programs know it by their environment,
# and headers and libraries of it lie in `sysroot`.
choose_processor() {
  local own
  own="$(dpkg-architecture -qDEB_BUILD_ARCH)"
  cross=no tools="" rpm_target=() emulator=() sysroot=""
  [ "${processor:=$own}" != "$own" ] || return 0
  [ "$processor" = arm64 ] || fail "--arch takes $own or arm64, not '$processor'"
  [ -z "$cuda" ] || fail "the CUDA plugin is not cross-compiled: --cuda is for packages of this machine's processor"
  cross=yes tools=aarch64-linux-gnu- rpm_target=(--target aarch64) emulator=(qemu-aarch64 -L /usr/aarch64-linux-gnu)
  local tool
  for tool in "${tools}g++" "${emulator[0]}"; do
    command -v "$tool" >/dev/null || fail "$tool is not here: packaging/setup.sh aarch64 installs it"
  done
  eval "$(dpkg-architecture -a"$processor" -s 2>/dev/null)"
}

# get_sysroot: what the library, the plugins and the bindings are compiled with, and what dpkg-shlibdeps asks about it.
get_sysroot() {
  [ $cross = yes ] || return 0
  sysroot="$trees/sysroot-$processor"
  say "headers and libraries of $processor, in $sysroot"
  "$ROOT/packaging/sysroot.sh" "$sysroot" --whole libpython3-dev "${PLUGINS[@]}" >"$stage/sysroot.log" 2>&1 || { tail -n 20 "$stage/sysroot.log"; fail "packages of $processor cannot be had"; }
  cmake_arguments=("-DCMAKE_TOOLCHAIN_FILE=$ROOT/packaging/cmake/aarch64.cmake" "-DDPI_SYSROOT=$sysroot" "${cmake_arguments[@]}")
}
PLUGINS=(librocksdb-dev libxxhash-dev libhiredis-dev libssl-dev librdkafka-dev)

# program: sets `dpi`, a program of this machine that is the packed one: itself, or itself under qemu.
program() {
  dpi="$tree/bin/dpi"
  [ $cross = yes ] || return 0
  dpi="$stage/dpi"
  printf '#!/bin/sh\nexec %s "%s" "$@"\n' "${emulator[*]}" "$tree/bin/dpi" >"$dpi"
  chmod +x "$dpi"
}

# shlibdeps ARGUMENTS: dpkg-shlibdeps, of the packages that the sysroot is made of if there is one.
shlibdeps() {
  if [ $cross = no ]; then
    dpkg-shlibdeps "$@"
  else
    dpkg-shlibdeps --admindir="$sysroot/dpkg" -l"$sysroot/lib/$DEB_HOST_MULTIARCH" -l"$sysroot/usr/lib/$DEB_HOST_MULTIARCH" "$@"
  fi
}

# leave_out: packages that are the same for every processor come from the build for this machine's; their files go.
leave_out() {
  [ $cross = yes ] || return 0
  local file pattern
  for file in "$here"/list/*.sh; do
    (describe_package "$(basename "$file" .sh)"
      [ "$arch" = all ] || exit 0
      for pattern in "${files[@]}"; do (cd "$all" && compgen -G "$pattern" || true) | while read -r path; do rm -r "${all:?}/$path"; done; done)
  done
}
