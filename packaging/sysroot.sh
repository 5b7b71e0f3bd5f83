#!/usr/bin/env bash
# Unpacks Debian's packages of another processor or release into a folder, to compile against and to run from. The system's package database
# knows nothing of them: some cannot be installed beside those of this machine.
#
#   packaging/sysroot.sh DIR [--of SUITE] [--whole PACKAGE...]
#
#   DIR             what libdpi, the program and the tests are compiled with on arm64: headers and archives
#   --whole         also these packages, with all that they depend on, the C library too
#   --of SUITE      of this release of Debian (bullseye, trixie) and this machine's processor, and only what --whole names
#
# What lies in DIR already is not fetched again. Needs apt-get with a source of Debian, and no root.
set -euo pipefail
umask 022

COMPILED_WITH=(libxxhash-dev libsodium-dev nlohmann-json3-dev libcli11-dev doctest-dev)

[ $# -gt 0 ] && [[ $1 != -* ]] || { sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 2; }
mkdir -p "$1"
root="$(cd "$1" && pwd -P)"
shift
whole=() suite="" arch=arm64
if [ "${1:-}" = --of ]; then suite="$2" arch="$(dpkg --print-architecture)" COMPILED_WITH=(); shift 2; fi
if [ "${1:-}" = --whole ]; then shift; whole=("$@"); fi
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

# Whoever fetched all of a list leaves its name, so that a list that grew is fetched again.
done_mark() { echo "$root/.fetched.$(printf '%s\n' "$@" | sha256sum | cut -c 1-12)"; }
compiled_mark="$(done_mark "${COMPILED_WITH[@]}")" whole_mark="$(done_mark whole "${whole[@]}")"
[ -z "$suite" ] && [ ! -e "$compiled_mark" ] || COMPILED_WITH=()
[ ${#whole[@]} -gt 0 ] && [ ! -e "$whole_mark" ] || whole=()
[ ${#COMPILED_WITH[@]} -gt 0 ] || [ ${#whole[@]} -gt 0 ] || exit 0

# enter PACKAGE: into a database of dpkg's form in DIR/dpkg, for dpkg-shlibdeps --admindir: what package a file of DIR is of, by its path on this
# machine, and which symbols came with which version.
enter() {
  local control="$scratch/control" name
  rm -rf "$control"
  dpkg-deb -e "$1" "$control"
  name="$(dpkg-deb -f "$1" Package)"
  grep -q "^Package: $name\$" "$root/dpkg/status" 2>/dev/null && return
  mkdir -p "$root/dpkg/info"
  { sed '/^Package: /a Status: install ok installed' "$control/control"; echo; } >>"$root/dpkg/status"
  [ "$(dpkg-deb -f "$1" Multi-Arch)" != same ] || name="$name:$arch"
  dpkg-deb --fsys-tarfile "$1" | tar -t | sed -n "s|^\./\(.*[^/]\)\$|$root/\1|p" >"$root/dpkg/info/$name.list"
  local file
  for file in symbols shlibs; do [ ! -f "$control/$file" ] || cp "$control/$file" "$root/dpkg/info/$name.$file"; done
  printf 'amd64\narm64\n' >"$root/dpkg/arch"
  echo 1 >"$root/dpkg/info/format"
}

mkdir -p "$scratch/lists/partial" "$scratch/cache/archives/partial"
touch "$scratch/status"
apt=(apt-get -q -o APT::Architecture="$arch" -o APT::Architectures="$arch" -o APT::Sandbox::User=root -o Dir::State::lists="$scratch/lists"
  -o Dir::Cache="$scratch/cache" -o Dir::State::status="$scratch/status" -o Acquire::Languages=none -o APT::Install-Recommends=false)
if [ -n "$suite" ]; then
  mirror="$(apt-get indextargets --format '$(REPO_URI) $(COMPONENT) $(ORIGIN)' 'Created-By: Packages' | awk '$2 == "main" && $3 == "Debian" { print $1; exit }')"
  [ -n "$mirror" ] || { echo "packaging/sysroot.sh: apt knows no source of Debian" >&2; exit 1; }
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$scratch/sources.list"
  apt+=(-o Dir::Etc::sourcelist="$scratch/sources.list" -o Dir::Etc::sourceparts=-)
fi
"${apt[@]}" update
cd "$scratch/cache/archives"
[ ${#COMPILED_WITH[@]} -eq 0 ] || "${apt[@]}" download "${COMPILED_WITH[@]}"
[ ${#whole[@]} -eq 0 ] || "${apt[@]}" -y --download-only -o Debug::NoLocking=1 install "${whole[@]}"
for package in *.deb; do dpkg-deb -x "$package" "$root"; done
for package in *.deb; do enter "$package"; done
[ -n "$suite" ] || touch "$compiled_mark"
[ ${#whole[@]} -eq 0 ] || touch "$whole_mark"
