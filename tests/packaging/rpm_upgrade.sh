#!/usr/bin/env bash
# The upgrade of the .rpms that are installed in a scratch root: rpm_upgrade.sh ROOT OLDER NEWER. Both folders are of one tree, numbered
# differently. rpm_test.sh calls it; what the packages need of the system is known to no package database here, hence --nodeps.
set -euo pipefail
root="$1" older="$2" newer="$3"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
rpm() { command rpm --root "$root" --dbpath /rpmdb "$@"; }

of_files() { command rpm -qp --nosignature --qf '%{NAME} %{VERSION}-%{RELEASE}\n' "$@" | sort; }
installed() { rpm -qa --qf '%{NAME} %{VERSION}-%{RELEASE}\n' | sort; }

diff <(installed) <(of_files "$older"/*.rpm)
# Planted: the same comparison with the newer ones finds every package.
if diff <(installed) <(of_files "$newer"/*.rpm) >"$scratch/said"; then echo "both folders have the same numbers"; exit 1; fi
test "$(grep -c '^>' "$scratch/said")" = "$(find "$newer" -name '*.rpm' | wc -l)"

# The library alone is refused: the packages of one number go together.
if rpm -U --test --nosignature "$newer"/dpi-libs-[0-9]*.rpm 2>"$scratch/said"; then echo "a library of another number than its headers' is let in"; exit 1; fi
grep -q 'dpi-libs(x86-64) = .* is needed by (installed) dpi-devel' "$scratch/said"

files_before="$(cd "$root" && find . -path ./rpmdb -prune -o -print | sort)"
rpm -U --nodeps --nosignature "$newer"/*.rpm
diff <(installed) <(of_files "$newer"/*.rpm)
diff <(echo "$files_before") <(cd "$root" && find . -path ./rpmdb -prune -o -print | sort)
if rpm -U --nodeps --nosignature "$older"/*.rpm 2>"$scratch/said"; then echo "an older package replaces a newer one"; exit 1; fi
grep -q 'which is newer than' "$scratch/said"
