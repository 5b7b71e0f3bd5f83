#!/usr/bin/env bash
# packaging/setup.sh with a planted apt-get and dpkg-query: it waits for a held lock, and for nothing else.
set -uo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
bad=0

plant() {  # NAME, body on standard input: a program that comes first on PATH
  { echo '#!/bin/sh'; cat; } >"$scratch/$1"
  chmod +x "$scratch/$1"
}
plant dpkg-query <<<'exit 1'
plant sudo <<<'exec "$@"'
plant sleep <<<'exit 0'
# The first calls, as many as the file `held` says, find the lock held; ERROR fails at once.
plant apt-get <<'SH'
echo "$@" >>"$CALLS"
if [ -e "$BROKEN" ]; then
  echo "E: dpkg was interrupted, you must manually run 'dpkg --configure -a' to correct the problem. " >&2
  exit 100
fi
[ -z "${ERROR:-}" ] || { echo "E: $ERROR" >&2; exit 100; }
held="$(cat "$HELD")"
[ "$held" -gt 0 ] || exit 0
echo $((held - 1)) >"$HELD"
echo "E: Could not get lock $LOCK. It is held by process 1 (apt-get)" >&2
exit 100
SH
plant dpkg <<'SH'
[ "$*" != "--configure -a" ] || [ -n "${STAYS:-}" ] || rm -f "$BROKEN"
SH
export BROKEN="$scratch/broken" CALLS="$scratch/calls" HELD="$scratch/held" LOCK="/var/lib/apt/lists/lock"

# expect ABOUT STATUS CALLS: what setup.sh ends with, and how often it called apt-get.
expect() {
  local status calls
  : >"$CALLS"
  PATH="$scratch:$PATH" "$root/packaging/setup.sh" build >"$scratch/log" 2>&1
  status=$?
  calls="$(wc -l <"$CALLS")"
  if { [ "$2" = 0 ] && [ $status -ne 0 ]; } || { [ "$2" != 0 ] && [ $status -eq 0 ]; } || [ "$calls" -ne "$3" ]; then
    echo "FAILED: $1: exit status $status, expected $2; $calls calls of apt-get, expected $3:"
    sed 's/^/    /' "$scratch/log"
    bad=1
  fi
}

echo 0 >"$HELD"
expect "nothing holds a lock" 0 2
grep -q 'install .*g++' "$CALLS" || { echo "FAILED: g++ is not installed"; bad=1; }
[ "$(grep -c 'DPkg::Lock::Timeout=[1-9]' "$CALLS")" = 2 ] || { echo "FAILED: dpkg's lock is not waited for"; bad=1; }
echo 3 >"$HELD"
expect "a lock is held for a while" 0 5
touch "$BROKEN"
expect "an installation was cut off" 0 3
touch "$BROKEN"
STAYS=1 expect "one that cannot be ended" 1 2
rm -f "$BROKEN"
ERROR="Unable to locate package" expect "another error" 1 1
exit $bad
