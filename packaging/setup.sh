#!/usr/bin/env bash
# Installs what the project needs on Debian 12, through apt. Repeatable: asks dpkg first and does nothing when all is there.
#
#   packaging/setup.sh [--print] [GROUP...]        groups: build (default), test, stores, parity, bindings, packages, docs, aarch64, all
#
#   build     compilers and libraries for the SDK itself
#   test      what tests/run.sh needs beyond that
#   stores    what the plugins for RocksDB, Redis and Kafka are built with; part of test and packages
#   parity    the training frameworks that scores are compared with
#   bindings  Java, Go and Python
#   packages  what packaging/build.sh and its tests need beyond build and bindings
#   docs      what packaging/doc/build.sh and its tests need beyond build and bindings
#   aarch64   the cross compiler and the emulator of the preset aarch64 and its stage; not in `all`
#   --print   only list the packages of the groups
#
# Another package manager that is at work is waited for, ten minutes at most.
set -euo pipefail

BUILD=(g++ cmake ninja-build pkg-config libxxhash-dev libsodium-dev nlohmann-json3-dev libcli11-dev)
TEST=(git make xz-utils graphviz abigail-tools python3 python3-venv python3-numpy libhdf5-dev hdf5-tools python3-h5py python3-xxhash python3-cryptography python3-pytest python3-sklearn python3-prometheus-client prometheus
      doctest-dev libbenchmark-dev libdnnl-dev clang-19 clang-tidy-19 clang-format-19 libclang-rt-19-dev llvm-19 ccache)
STORES=(librocksdb-dev libhiredis-dev libssl-dev librdkafka-dev)
TEST+=("${STORES[@]}" redis-server openssl kcat)
PARITY=(python3 python3-venv python3-pip python3-matplotlib python3-torch python3-onnx python3-pandas python3-numpy python3-h5py python3-xxhash
        python3-sklearn python3-pytest python3-pytest-xdist)
BINDINGS=(default-jdk-headless golang-go swig junit5 libgoogle-gson-java python3-dev python3-venv python3-pip python3-numpy python3-pandas)
PACKAGES=(dpkg-dev rpm rpmlint lintian debootstrap gdb git python3 "${STORES[@]}")
DOCS=(python3 python3-markdown python3-pygments python3-html5lib python3-numpy python3-sklearn python3-h5py python3-xxhash python3-cryptography python3-torch python3-yaml nodejs doxygen graphviz pkg-config)
AARCH64=(g++-aarch64-linux-gnu qemu-user cmake ninja-build pkg-config)

LOCK_SECONDS=600

say() { printf '==> %s\n' "$*" >&2; }

packages_of() {
  case "$1" in
    build) echo "${BUILD[@]}" ;;
    test) echo "${TEST[@]}" ;;
    stores) echo "${STORES[@]}" ;;
    parity) echo "${PARITY[@]}" ;;
    bindings) echo "${BINDINGS[@]}" ;;
    packages) echo "${PACKAGES[@]}" ;;
    docs) echo "${DOCS[@]}" ;;
    aarch64) echo "${AARCH64[@]}" ;;
    all) echo "${BUILD[@]} ${TEST[@]} ${PARITY[@]} ${BINDINGS[@]} ${PACKAGES[@]} ${DOCS[@]}" ;;
    *) say "unknown group '$1'; the groups are build, test, stores, parity, bindings, packages, docs, aarch64, all"; exit 2 ;;
  esac
}

missing_of() {
  local package
  for package in "$@"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] || echo "$package"
  done
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    env DEBIAN_FRONTEND=noninteractive "$@"
  else
    sudo env DEBIAN_FRONTEND=noninteractive "$@"
  fi
}

# apt ARGUMENTS...: apt-get as root. Only for dpkg's own lock can apt be told to wait, so the lists' and the archives' are
# tried again. An installation that was cut off before is ended first, once: until then apt-get refuses everything.
apt() {
  local log status mended=no deadline=$((SECONDS + LOCK_SECONDS))
  log="$(mktemp)"
  while true; do
    status=0
    as_root env LC_ALL=C apt-get -q -o DPkg::Lock::Timeout="$LOCK_SECONDS" "$@" 2>&1 | tee "$log" || status=$?
    if [ $status -ne 0 ] && [ $mended = no ] && grep -q '^E: dpkg was interrupted' "$log"; then
      say "an installation was cut off before: ending it (dpkg --configure -a)"
      mended=yes
      as_root dpkg --configure -a && continue
    fi
    [ $status -ne 0 ] && grep -q '^E: Could not get lock' "$log" && [ $SECONDS -lt $deadline ] || break
    say "another package manager is at work: trying again in 5 s"
    sleep 5
  done
  rm -f "$log"
  return $status
}

main() {
  local print_only=no groups=() wanted=() missing=() group
  for group in "$@"; do
    case "$group" in
      --print) print_only=yes ;;
      -h | --help) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
      *) groups+=("$group") ;;
    esac
  done
  [ ${#groups[@]} -gt 0 ] || groups=(build)
  for group in "${groups[@]}"; do
    read -r -a packages <<<"$(packages_of "$group")"
    [ ${#packages[@]} -gt 0 ] || exit 2
    wanted+=("${packages[@]}")
  done
  if [ "$print_only" = yes ]; then
    printf '%s\n' "${wanted[@]}" | sort -u
    exit 0
  fi
  if ! command -v dpkg-query >/dev/null; then
    say "this script installs Debian packages; on another system install the equivalents of: ${wanted[*]}"
    exit 1
  fi
  mapfile -t missing < <(missing_of "${wanted[@]}" | sort -u)
  if [ ${#missing[@]} -eq 0 ]; then
    say "all packages of '${groups[*]}' are installed"
    exit 0
  fi
  if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
    say "neither root nor sudo: ask an administrator for: apt-get install ${missing[*]}"
    exit 1
  fi
  say "installing ${#missing[@]} packages: ${missing[*]}"
  apt update
  apt install -y --no-install-recommends "${missing[@]}"
  say "set-up of '${groups[*]}' done"
}

main "$@"
