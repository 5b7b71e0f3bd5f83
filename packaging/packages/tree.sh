# shellcheck shell=bash
# Builds the library for one format's folders, lays out every file and divides them among the packages.

# layout FORMAT: where things lie, relative to /.
layout() {
  tree="$trees/packages-$([ $cross = no ] || echo "$processor-")$([ "$debug" = no ] && echo plain || echo debug)"
  if [ "$1" = deb ]; then
    lib="usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)" python=usr/lib/python3/dist-packages
    jni="$lib/jni" examples=usr/share/doc/libdpi-dev/examples maven=usr/share/maven-repo
    stores=ON
  else
    # The Python of RHEL 9, which has the glibc that is asked for, and has not the libraries that the plugins for stores are linked with.
    stores=OFF
    lib=usr/lib64 python="usr/lib/python${DPI_RPM_PYTHON:-3.9}/site-packages" jni=usr/lib64/dpi examples=usr/share/doc/dpi-devel/examples maven=""
  fi
}

# build_tree FORMAT: the program looks for plugins in the folder of libraries, so the tree is built for one format after the other; one
# file of it differs. Debug symbols have functions, inlined ones too, and lines, which a backtrace needs; types are in those of the C API alone.
# They name the sources as lying in /usr/src, wherever they were compiled: the compiler cache must not make paths relative then.
build_tree() {
  local flags="" of_api="" source="/usr/src/dpi-$version"  # compile sees them
  if [ "$debug" = yes ]; then
    flags="-g1 -ffile-prefix-map=$ROOT=$source -ffile-prefix-map=$tree=$source/build" of_api=-g
    export CCACHE_BASEDIR=""
    unset CCACHE_NOHASHDIR
  else
    unset CCACHE_BASEDIR  # the tree's launcher sets it
  fi
  say "$1: building for $processor, /$lib, on $jobs processors: about 12 minutes of one with an empty compiler cache, less than 1 with a full one"
  # In the caller's language: the compiler cache takes what was compiled in another for something else.
  (if [ -n "$caller_locale" ]; then LC_ALL="$caller_locale"; else unset LC_ALL; fi; compile)
}

compile() {
  local targets=(dpi dpi_program dpi_jni dpi_java_classes dpi_go dpi_python_package)
  [ $stores = OFF ] || targets+=(dpi_rocksdb dpi_redis dpi_kafka)
  cmake -S "$ROOT" -B "$tree" -G Ninja --log-level=NOTICE -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_INSTALL_LIBDIR="${lib#usr/}" \
    -DDPI_CUDA=OFF -DDPI_ROCKSDB=$stores -DDPI_REDIS=$stores -DDPI_KAFKA=$stores -DDPI_MEASURE=OFF -DDPI_DEVELOPER_MODE=OFF -DCMAKE_C_FLAGS="$flags" -DCMAKE_CXX_FLAGS="$flags" \
    -DDPI_API_SYMBOLS="$of_api" "${cmake_arguments[@]}"
  ninja -C "$tree" -j "$jobs" "${targets[@]}" | tee "$tree/build.log" | tenths || { tail -n 40 "$tree/build.log"; fail "the build failed"; }
}

# The library refuses a plugin of another build of their interface, which is what an older build folder has: such a one is not packed.
# What else it says of the plugin is the machine's matter: a driver or a GPU that is not there.
plugin_fits() {
  [ -n "$plugin" ] || return 0
  local said
  said="$("$tree/bin/dpi" devices --backend-dir "$(dirname "$(realpath "$plugin")")" | grep '^cuda ')"
  ! grep -E 'does not export|was built for the backend interface|backend ABI' <<<"$said" || fail "$plugin is of another build of the backend interface"
  [ -n "$(plugin_oldest)" ] || fail "$cuda/CMakeCache.txt names no DPI_CUDA_ARCHS"
}
# The oldest architecture that the plugin was compiled for, as its package says: a build for tests has one only.
plugin_oldest() { if [ -f "$cuda/CMakeCache.txt" ]; then sed -n 's/^DPI_CUDA_ARCHS:[A-Z]*=\([0-9]*\).*/\1/p' "$cuda/CMakeCache.txt"; fi; }

# stage_tree FORMAT: what cmake installs, and what it does not, in the folders of the format.
stage_tree() {
  all="$stage/$1/all"
  mkdir -p "$all"
  DESTDIR="$all" cmake --install "$tree" --prefix /usr >/dev/null
  rm -r "$all/usr/share/doc/dpi/"{LICENSE,THIRD_PARTY.md,licenses,dpi.spdx.json}  # each package has its own
  mkdir -p "$(dirname "$all/$examples")"
  mv "$all/usr/share/doc/dpi/samples" "$all/$examples"
  rmdir "$all/usr/share/doc/dpi"
  stage_java
  stage_python
  stage_runtime "$1"
  program
  [ $cross = yes ] || stage_site
  mkdir -p "$all/usr/share/man/man1"
  "$here/man_pages.py" "$dpi" "$version" "$all/usr/share/man/man1"
  gzip -9n "$all"/usr/share/man/man1/*
  [ -z "$plugin" ] || install -D -m 644 "$plugin" "$all/$lib/dpi/backends-1/libdpi_cuda.so"
  # Executable for rpm, which looks for what a library needs and provides in executable files only; not for Debian.
  find "$all/usr/lib" "$all/$lib" -name '*.so*' -type f -exec chmod "$([ "$1" = rpm ] && echo 755 || echo 644)" {} +
}

# The wrapper finds libdpi.so.1 as any library does: where it lies beside it in the JAR it has a search path, which here must go.
stage_java() {
  install -D "$tree/lib/libdpi_jni.so" "$all/$jni/libdpi_jni.so"
  printf 'file(RPATH_REMOVE FILE "%s")\n' "$all/$jni/libdpi_jni.so" >"$stage/no_path.cmake"
  cmake -P "$stage/no_path.cmake"
  "$ROOT/packaging/jar/make_class_jar.sh" "$all/usr/share/java" "$version" "$tree/bindings/java/classes" "$tree/packaging"
  ln -s "dpi-$version.jar" "$all/usr/share/java/dpi.jar"
  [ -z "$maven" ] || stage_maven "$all/$maven/org/dpiframe/dpi/$version"
}

# Debian's repository for Maven and what reads it: org.dpiframe:dpi, by its coordinates.
stage_maven() {
  mkdir -p "$1"
  ln -sr "$all/usr/share/java/dpi-$version.jar" "$1/dpi-$version.jar"
  sed "s/@VERSION@/$version/" "$ROOT/packaging/jar/pom.xml.in" >"$1/dpi-$version.pom"
}

# The package lies where Python looks; `dpi repack` finds it by the link, so that it runs this one and no other.
stage_python() {
  mkdir -p "$all/$python"
  mv "$all/usr/share/dpi/python/dpi_export" "$all/$python/"
  ln -sr "$all/$python/dpi_export" "$all/usr/share/dpi/python/dpi_export"
  "$here/dist_info.py" "$ROOT/weights/python" "$version" "$all/$python"
}

# The runtime, for one Python: the one that the extension's name has. It finds libdpi.so.1 as any library does.
stage_runtime() {
  local minor info
  minor="$(cd "$tree/python/dpi" && echo _native.cpython-3*.so | sed -n 's/^_native\.cpython-3\([0-9]*\)-[^ ]*$/\1/p')"
  [ -n "$minor" ] || fail "$tree/python/dpi has not the extension of one Python"
  python_is="3.$minor" python_next="3.$((minor + 1))" python_native="$python" python_rpm=python3
  [ "$1" = deb ] || python_native="usr/lib64/python$python_is/site-packages"
  [ "$python_is" = "${DPI_RPM_PYTHON:-3.9}" ] || python_rpm="python$python_is"
  DESTDIR="$all" cmake --install "$tree" --prefix /usr --component python >/dev/null
  mkdir -p "$all/$python_native"
  [ "$1" = deb ] || mv "$all/usr/lib/python3/dist-packages/dpi" "$all/$python_native/"
  info="$all/$python_native/dpi-$version.dist-info"
  mkdir "$info"
  "$ROOT/bindings/python/pack_wheel.py" --metadata "$version" "$ROOT/bindings/python/README.md" >"$info/METADATA"
}

# divide FORMAT: every file goes to the one package that names it.
divide() {
  each "$1" take
  leave_out
  local left
  left="$(find "$all" ! -type d)"
  [ -z "$left" ] || fail "no package in packaging/packages/list takes $left"
  rm -r "$all"
}

take() {
  local pattern path
  mkdir -p "$folder"
  for pattern in "${files[@]}"; do
    (cd "$all" && compgen -G "$pattern") >"$stage/taken" || fail "$name: nothing is there for $pattern"
    while read -r path; do
      tar -C "$all" -cf - "$path" | tar -C "$folder" -xf -
      rm -r "${all:?}/$path"
    done <"$stage/taken"
  done
}

# finish FORMAT: symbols apart, notices, and no file that asks for a newer glibc than the floor.
finish() {
  local file newest
  while read -r file; do
    split_symbols "$1" "$file"
    newest="$(floor "$file")"
    say "$name: ${file#"$folder"} asks for glibc $newest"
    printf '%s\n%s\n' "$newest" "$GLIBC_FLOOR" | sort -VC || fail "$name: ${file#"$folder"} asks for glibc $newest; $GLIBC_FLOOR is promised"
  done < <(elf_files "$folder")
  local from="$tree/packaging/notices" doc="$name"
  [ "$notices" != cuda ] || from="$cuda/packaging/notices"
  [ "$notices" != site ] || from="$stage/site_notices"
  [ "$1" = deb ] || doc="$rpm"
  [ -z "$notices" ] || { mkdir -p "$folder/usr/share/doc/$doc" && cp -r "$from/THIRD_PARTY.md" "$from/licenses" "$folder/usr/share/doc/$doc/"; }
}

# split_symbols FORMAT FILE: into $stage/FORMAT/NAME.debug, found by the build's identity; a file without any gives none.
split_symbols() {
  local id target
  if readelf -SW "$2" | grep ' \.debug_info ' >/dev/null; then  # to its end: readelf dies of a pipe that is closed early
    id="$(readelf -n "$2" | sed -n 's/^ *Build ID: //p')"
    target="$stage/$1/$name.debug/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug"
    mkdir -p "$(dirname "$target")"
    "${tools}objcopy" --only-keep-debug --compress-debug-sections "$2" "$target"
    chmod 644 "$target"
    echo "$id" >>"$stage/$1/$name.ids"
  fi
  "${tools}strip" --strip-unneeded --remove-section=.comment --remove-section=.note "$2"
}
