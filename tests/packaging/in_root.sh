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
tools() { apt-get update -q && install g++ cmake make default-jdk-headless ivy gdb-minimal golang-go libgoogle-gson-java python3-pandas python3-sklearn python3-torch- file; }

# The container's recipe in packaging/README.md, line by line: COPY takes from $context, FROM is this root.
recipe() {  # FILE
  local context=/test/context as=() line words
  mkdir -p "$context" && cp /test/newer/{libdpi1,dpi-tools}_*.deb "$context/" && dpkg-deb -x /test/newer/libdpi-dev_*.deb "$work/dev" &&
    cp "$work/dev$examples/adult_widedeep.h5" "$context/model.h5" || return 1
  while read -r line; do
    echo "$line"
    case "$line" in
      FROM\ *) ;;
      COPY\ *)
        read -ra words <<<"${line#COPY }"
        mkdir -p "$(dirname "${words[-1]}x")" && (cd "$context" && cp ${words[*]}) || return 1 ;;
      RUN\ *) sh -c "${line#RUN }" || return 1 ;;
      USER\ *) as=(runuser -u "${line#USER }" --) ;;
      CMD\ *) "${as[@]}" $(tr -d '[],"' <<<"${line#CMD }") || return 1 ;;
      *) echo "what is this line?"; return 1 ;;
    esac
  done <"$1"
}
container() { [ -s /test/Containerfile ] && recipe /test/Containerfile >"$work/said" && grep -q '^verified' "$work/said" && [ "$(ours | wc -l)" = 2 ] && purge_all; }
container_fails() {  # planted: the library is forgotten, and so is the model
  sed 's|model.h5 /srv|nothing.h5 /srv|' /test/Containerfile >"$work/bad" && ! recipe "$work/bad" && purge_all
}
names() { find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /test -o -path /tmp -o -path /root -o -path /var/log -o -path /var/cache -o -path /var/lib/apt -o -path /var/lib/dpkg \) -prune -o -print | sort; }

ours() { dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\n' | awk '/^(libdpi|dpi-|golang-dpi|python3-dpi)/ && $3 == "ii" { print $1, $2 }'; }
all_are() {  # REVISION: every package that lies in the folder is installed with it
  local wanted
  wanted="$(for file in "/test/$1"/*.deb; do dpkg-deb -W --showformat '${Package} ${Version}\n' "$file"; done | sort)"
  diff <(ours | sort) <(echo "$wanted")
}
another_number() { ! all_are older >"$work/numbers" && grep -q '^< libdpi1 ' "$work/numbers" && grep -q '^> libdpi1 ' "$work/numbers"; }
install_all() { install "/test/$1"/*.deb && all_are "$1"; }

verify() { dpi verify "$examples/adult_widedeep.h5"; }
# Install's block that copies the demo, as it stands there, where nothing names a place.
page_folder() (mkdir -p "$work/page" && cd "$work/page" && env -u PREFIX bash -euo pipefail /test/page_folder.sh && [ -s adult_test.csv ] && dpi verify adult_widedeep.h5)
predict() { dpi predict "$examples/adult_widedeep.h5" "$examples/adult_test.csv" --raw >"$work/scores.csv" && [ "$(wc -l <"$work/scores.csv")" = 16282 ]; }
devices() { dpi devices && dpi devices --json | grep "/usr/lib/$(dpkg --print-architecture | sed s/amd64/x86_64/)-linux-gnu/dpi/backends-1" >/dev/null; }
without_driver() { dpi devices | grep -E '^cuda +(usable|refused +/usr/lib/[^ ]*/libdpi_cuda\.so: cannot be used on this machine: )'; }
# The plugins for stores and streams: where the library looks, nobody else's to write to, with all that they need, and of one build.
stores() {
  local plugins=(/usr/lib/*-linux-gnu/dpi/backends-1/libdpi_{rocksdb,redis,kafka}.so)
  [ "$(stat -c '%A %U' "${plugins[@]}" | sort -u)" = "-rw-r--r-- root" ] && ldd "${plugins[@]}" >"$work/needs" || return 1
  if grep 'not found' "$work/needs"; then return 1; fi
  grep -q 'librocksdb\.so\.7\.8 => /' "$work/needs" && grep -q 'libhiredis\.so\.0\.14 => /' "$work/needs" && grep -q 'librdkafka\.so\.1 => /' "$work/needs" && cc /test/stores.c -o "$work/stores" &&
    "$work/stores" store "${plugins[@]:0:2}" && "$work/stores" stream "${plugins[2]}"
}
another_hiredis() {  # planted: a plugin that asks for one that is not there
  sed 's/libhiredis\.so\.0\.14/libhiredis.so.0.99/' /usr/lib/*-linux-gnu/dpi/backends-1/libdpi_redis.so >"$work/libdpi_redis.so" && ! "$work/stores" store "$work/libdpi_redis.so"
}
c_by_pkg_config() { cc "$examples/02_score_batch.c" $(pkg-config --cflags --libs dpi) -o "$work/batch" && "$work/batch" "$examples/adult_widedeep.h5" >"$work/c.txt" && grep -q '^row 1' "$work/c.txt"; }
by_cmake() {
  cmake -S "$examples" -B "$work/cmake" && cmake --build "$work/cmake" && "$work/cmake/score_candidates" "$examples/msweb_deepfm.h5" | grep "candidate 4" >/dev/null &&
    "$work/cmake/score_csv" "$examples/adult_widedeep.h5" "$examples/adult_test.csv" >/dev/null
}
in_java() {
  javac -cp /usr/share/java/dpi.jar -d "$work" /test/Score.java && java -cp /usr/share/java/dpi.jar:"$work" Score "$examples/adult_widedeep.h5" >"$work/java.txt" &&
    diff "$work/c.txt" "$work/java.txt" && [ ! -e "$HOME/.cache/dpi" ]  # the system's library, no extracted one
}
by_maven_coordinates() {  # what a build with Maven's repositories does, by Ivy: Debian's repository is a folder
  printf '<ivysettings><settings defaultResolver="debian"/><resolvers><ibiblio name="debian" m2compatible="true" root="file:///usr/share/maven-repo/"/></resolvers></ivysettings>' >"$work/ivy.xml"
  resolve() { java -jar /usr/share/java/ivy.jar -settings "$work/ivy.xml" -cache "$work/ivy" -dependency org.dpiframe dpi "$1" -cachepath "$work/path"; }
  rm -rf "$work/ivy" && ! resolve 0.9.9 && resolve 1.2.0 && java -cp "$(cat "$work/path"):$work" Score "$examples/adult_widedeep.h5" | diff "$work/c.txt" -
}
in_go() {
  mkdir -p "$work/go" && cp /test/main.go "$work/go/" && cd "$work/go" &&
    printf 'module x\n\ngo 1.19\n\nrequire dpiframe.org/dpi v1.2.0\n\nreplace dpiframe.org/dpi => /usr/share/gocode/src/dpiframe.org/dpi\n' >go.mod &&
    GOFLAGS=-mod=mod GOPROXY=off GOCACHE="$work/gocache" go build -o score . && ./score "$examples/adult_widedeep.h5" >"$work/go.txt" && diff "$work/c.txt" "$work/go.txt"
}
in_python() {
  cd / && /usr/bin/python3 -c "import dpi_export, sys; assert dpi_export.__file__.startswith('/usr/lib/python3/dist-packages/'); print(dpi_export.Bundle('$examples/adult_widedeep.h5'))" &&
    python3 -m dpi_export verify "$examples/adult_widedeep.h5" && dpi repack "$examples/adult_widedeep.h5" "$work/again.h5" && dpi verify "$work/again.h5"
}
# The package dpi, on the system's library: the scores of the other languages and of the program.
in_python_runtime() { cd / && python3 /test/consumer.py / "$examples/adult_widedeep.h5" "$examples/adult_test.csv" "$work/scores.csv" >"$work/python.txt" && diff "$work/c.txt" "$work/python.txt"; }
other_scores() {  # planted: the scores of other rows
  { head -n 1 "$work/scores.csv" && tail -n +2 "$work/scores.csv" | sort; } >"$work/sorted.csv" && cd / &&
    ! python3 /test/consumer.py / "$examples/adult_widedeep.h5" "$examples/adult_test.csv" "$work/sorted.csv"
}
samples() { rm -rf "$work/samples" && mkdir "$work/samples" && /test/samples_test.py / "$work/samples"; }  # by their README, services among them
documentation() {  # read in place, and known to the system's register of documents
  grep -q '<svg' /usr/share/doc/dpi-doc/html/plans.html && grep -q 'DPI_E_NOT_FOUND' /usr/share/doc/dpi-doc/html/errors.html &&
    grep -qx 'Index: /usr/share/doc/dpi-doc/html/index.html' /usr/share/doc-base/dpi-doc.dpi && [ -f /usr/share/doc/dpi-doc/html/index.html ]
}
# A service dies within a call: the debugger finds the library's symbols by its identity, and says where in which source.
frames() {  # FOLDER OF SYMBOLS
  gdb -batch -nx -iex 'set debuginfod enabled off' -iex "set debug-file-directory $1" -ex run -ex bt --args "$work/dies" "$examples/adult_widedeep.h5" >"$work/frames" 2>&1
  cat "$work/frames"
  grep -qE 'dpi_model_load \(path=.* at /usr/src/dpi-1\.2\.0/capi/src/model\.cpp:[0-9]+' "$work/frames" && grep -qE 'at /usr/src/dpi-1\.2\.0/sdk/src/' "$work/frames"
}
backtrace() { cc -g /test/dies.c $(pkg-config --cflags --libs dpi) -o "$work/dies" && frames /usr/lib/debug; }
no_symbols() { ! frames /nowhere && grep -q SIGABRT "$work/frames" && grep -q 'dpi_model_load ()' "$work/frames"; }
pages() { local page; for page in dpi dpi-verify dpi-repack; do [ -f "/usr/share/man/man1/$page.1.gz" ] || return 1; done; }

use_all() {  # FOLDER
  check "$1: dpi verify" verify
  check "$1: the folder in which the pages of the guide work" page_folder
  check "$1: dpi predict" predict
  check "$1: dpi devices looks for plugins beside the library" devices
  ! compgen -G "/test/$1/libdpi1-cuda13_*.deb" >/dev/null || check "$1: the CUDA plugin loads, and says what the machine lacks" without_driver
  check "$1: the plugins for RocksDB, Redis and Kafka open" stores
  check "$1: C by pkg-config" c_by_pkg_config
  check "$1: C and C++ by CMake" by_cmake
  check "$1: Java, JAR on the class path, the same scores" in_java
  check "$1: Java, by Maven coordinates" by_maven_coordinates
  check "$1: Go by replace, the same scores" in_go
  check "$1: Python, the exporter, and dpi repack" in_python
  check "$1: Python, import dpi, the same scores" in_python_runtime
  check "$1: the samples, by their README" samples
  check "$1: the documentation" documentation
  check "$1: manual pages" pages
  check "$1: a backtrace through the library names its sources" backtrace
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

check "the container's recipe, line by line" container
check "planted: a recipe without its model is noticed" container_fails
check "tools of the five languages" tools || exit 1
# What the packages bring from Debian stays in the root from here on: only their own files are in question.
depended() { install python3-h5py python3-xxhash python3-cryptography pkg-config librocksdb7.8 libhiredis0.14 libssl3 librdkafka1 && names >"$work/before"; }
check "Debian's packages" depended || exit 1
check "the packages install, with all that they depend on" install_all older || exit 1
use_all older
check "the next ones replace them" install_all newer
check "planted: packages of another number are noticed" another_number
use_all newer
check "planted: Python, other scores are noticed" other_scores
check "planted: a plugin without its library is noticed" another_hiredis
check "planted: without debug symbols a backtrace names none" no_symbols
check "all are removed" purge_all
check "nothing stays" nothing_stays
check "planted: compiled Python that stays is noticed" leaves_something
check "planted: a dependency that is not there is noticed" wrong_dependency
exit $bad
