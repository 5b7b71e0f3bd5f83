#!/usr/bin/env bash
# Run by root_test.sh in a clean Debian root that has the packages in /test/older and /test/newer.
set -uo pipefail
export DEBIAN_FRONTEND=noninteractive
log=/test/log work=/test/work examples=/usr/share/doc/libdpi-dev/examples
mkdir -p "$work"
bad=0

check() {  # NAME COMMAND...
  local name="$1"
  shift
  if "$@" >"$log" 2>&1; then
    echo "passed: in a clean root: $name"
  else
    tail -n 30 "$log"
    echo "FAILED: in a clean root: $name"
    bad=1
    return 1
  fi
}
install() { apt-get install -q -y --no-install-recommends "$@"; }

# What users of the five languages have: not what the packages depend on.
tools() { apt-get update -q && install g++ cmake make default-jdk-headless golang-go python3-torch- file; }
names() { find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /test -o -path /tmp -o -path /root -o -path /var/log -o -path /var/cache -o -path /var/lib/apt -o -path /var/lib/dpkg \) -prune -o -print | sort; }

ours() { dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\n' | awk '/^(libdpi|dpi-|golang-dpi|python3-dpi)/ && $3 == "ii" { print $1, $2 }'; }
all_are() {  # REVISION: every package that lies in the folder is installed with it
  local wanted
  wanted="$(for file in "/test/$1"/*.deb; do dpkg-deb -W --showformat '${Package} ${Version}\n' "$file"; done | sort)"
  diff <(ours | sort) <(echo "$wanted")
}
install_all() { install "/test/$1"/*.deb && all_are "$1"; }

verify() { dpi verify "$examples/adult_widedeep.h5"; }
predict() { dpi predict "$examples/adult_widedeep.h5" "$examples/adult_test.csv" --raw >"$work/scores.csv" && [ "$(wc -l <"$work/scores.csv")" = 16282 ]; }
devices() { dpi devices && dpi devices --json | grep -q "/usr/lib/$(dpkg --print-architecture | sed s/amd64/x86_64/)-linux-gnu/dpi/backends-1"; }
c_by_pkg_config() { cc "$examples/02_score_batch.c" $(pkg-config --cflags --libs dpi) -o "$work/batch" && "$work/batch" "$examples/adult_widedeep.h5" >"$work/c.txt" && grep -q '^row 1' "$work/c.txt"; }
by_cmake() {
  cmake -S "$examples" -B "$work/cmake" && cmake --build "$work/cmake" && "$work/cmake/score_candidates" "$examples/msweb_deepfm.h5" | grep -q 'candidate 4' &&
    "$work/cmake/score_csv" "$examples/adult_widedeep.h5" "$examples/adult_test.csv" >/dev/null
}
in_java() {
  javac -cp /usr/share/java/dpi.jar -d "$work" /test/Score.java && java -cp /usr/share/java/dpi.jar:"$work" Score "$examples/adult_widedeep.h5" >"$work/java.txt" &&
    diff "$work/c.txt" "$work/java.txt" && [ ! -e "$HOME/.cache/dpi" ]  # the system's library, no extracted one
}
in_go() {
  mkdir -p "$work/go" && cp /test/main.go "$work/go/" && cd "$work/go" &&
    printf 'module x\n\ngo 1.19\n\nrequire dpiframe.org/dpi v1.0.0\n\nreplace dpiframe.org/dpi => /usr/share/gocode/src/dpiframe.org/dpi\n' >go.mod &&
    GOFLAGS=-mod=mod GOPROXY=off GOCACHE="$work/gocache" go build -o score . && ./score "$examples/adult_widedeep.h5" >"$work/go.txt" && diff "$work/c.txt" "$work/go.txt"
}
in_python() {
  cd / && /usr/bin/python3 -c "import dpi_export, sys; assert dpi_export.__file__.startswith('/usr/lib/python3/dist-packages/'); print(dpi_export.Bundle('$examples/adult_widedeep.h5'))" &&
    python3 -m dpi_export verify "$examples/adult_widedeep.h5" && dpi repack "$examples/adult_widedeep.h5" "$work/again.h5" && dpi verify "$work/again.h5"
}
pages() { local page; for page in dpi dpi-verify dpi-repack; do [ -f "/usr/share/man/man1/$page.1.gz" ] || return 1; done; }

use_all() {  # FOLDER
  check "$1: dpi verify" verify
  check "$1: dpi predict" predict
  check "$1: dpi devices looks for plugins beside the library" devices
  check "$1: C by pkg-config" c_by_pkg_config
  check "$1: C and C++ by CMake" by_cmake
  check "$1: Java, JAR on the class path, the same scores" in_java
  check "$1: Go by replace, the same scores" in_go
  check "$1: Python, and dpi repack" in_python
  check "$1: manual pages" pages
}

purge_all() { local list; mapfile -t list < <(ours | cut -d' ' -f1); [ ${#list[@]} -gt 0 ] && apt-get purge -q -y "${list[@]}" && [ -z "$(ours)" ]; }
nothing_stays() { names >"$work/after"; diff "$work/before" "$work/after"; }

# Planted faults: a package that leaves compiled Python behind, and one that asks for what is not there.
rebuilt() {  # NAME COMMAND: /test/NAME.deb, changed by the command in its unpacked folder
  rm -rf "$work/fault" && dpkg-deb -R "/test/newer/$1"_*.deb "$work/fault" && (cd "$work/fault" && eval "$2") && dpkg-deb --root-owner-group -b "$work/fault" "/test/$1.deb"
}
leaves_something() {
  rebuilt python3-dpi-export 'rm DEBIAN/prerm' && install /test/python3-dpi-export.deb && purge_all && ! nothing_stays || return 1
  rm -r /usr/lib/python3/dist-packages/dpi_export && nothing_stays
}
wrong_dependency() {
  rebuilt libdpi1 'sed -i "s/^Depends: /Depends: libdpi-absent, /" DEBIAN/control' && ! install /test/libdpi1.deb && [ -z "$(ours)" ]
}

check "tools of the five languages" tools || exit 1
# What the packages bring from Debian stays in the root from here on: only their own files are in question.
depended() { install python3-h5py python3-xxhash python3-cryptography pkg-config && names >"$work/before"; }
check "Debian's packages" depended || exit 1
check "the packages install, with all that they depend on" install_all older || exit 1
use_all older
check "the next ones replace them" install_all newer
use_all newer
check "all are removed" purge_all
check "nothing stays" nothing_stays
check "planted: compiled Python that stays is noticed" leaves_something
check "planted: a dependency that is not there is noticed" wrong_dependency
exit $bad
