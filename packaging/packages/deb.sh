# shellcheck shell=bash
# A .deb of every package that ../build.sh has staged, and one of its debug symbols.

make_debs() {
  local package
  say "deb: packing: less than a minute of a processor"
  # dpkg's programs ask a source package's control file for names and architectures.
  mkdir -p "$stage/source/debian"
  { printf 'Source: dpi\nMaintainer: %s\n' "$PACKAGER"
    for package in $(packages deb); do printf '\nPackage: %s\nArchitecture: any\n' "$package"; done; } >"$stage/source/debian/control"
  each deb deb_documents
  (describe_package libdpi1; folder="$stage/deb/libdpi1"; deb_library)
  each deb deb_control
  each deb deb_debug
}

deb_documents() {
  local doc="$folder/usr/share/doc/$name"
  mkdir -p "$doc" "$folder/DEBIAN"
  {
    printf 'dpi (%s) unstable; urgency=medium\n\n  * Version %s.\n\n -- %s  %s\n' "$full" "$version" "$PACKAGER" \
      "$(date -u -R -d "@$SOURCE_DATE_EPOCH")"
  } | gzip -9n >"$doc/changelog.Debian.gz"
  deb_copyright >"$doc/copyright"
  [ ! -f "$here/debian/$name.lintian-overrides" ] ||
    install -D -m 644 "$here/debian/$name.lintian-overrides" "$folder/usr/share/lintian/overrides/$name"
  [ ! -f "$here/debian/$name.doc-base" ] || install -D -m 644 "$here/debian/$name.doc-base" "$folder/usr/share/doc-base/$name.dpi"
  [ ! -f "$here/debian/$name.triggers" ] || install -m 644 "$here/debian/$name.triggers" "$folder/DEBIAN/triggers"
  [ "$section" != python ] || deb_python
}

# Python's compiled files are made and taken away on the system that the package is installed on.
deb_python() {
  local script
  for script in postinst prerm; do
    sed "s/@PACKAGE@/$name/" "$here/debian/python.$script" >"$folder/DEBIAN/$script"
    chmod 755 "$folder/DEBIAN/$script"
  done
}

deb_copyright() {
  local year
  year="$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y)"
  sed "s/@YEAR@/$year/" "$here/debian/copyright"
  [ ! -f "$here/debian/$name.copyright" ] || { echo; cat "$here/debian/$name.copyright"; }
  [ "$notices" = "" ] || [ "$notices" = site ] || printf '\nFiles: usr/lib/* usr/bin/*\nCopyright: %s DPIFrame SDK authors, and those whom the notices name\nLicense: Apache-2.0\nComment:
 Linked in are the libraries that /usr/share/doc/%s/THIRD_PARTY.md lists;
 their licences and copyright notices are in /usr/share/doc/%s/licenses.\n' "$year" "$name" "$name"
}

# What programs that are linked with the library depend on. A node of the version script that debian/libdpi1.symbols does not name
# is an error.
deb_library() {
  echo "libdpi ${version%%.*} libdpi1 (>= $version)" >"$folder/DEBIAN/shlibs"
  (cd "$stage/source" && dpkg-gensymbols -plibdpi1 -v"$version" -P"$folder" -I"$here/debian/libdpi1.symbols" -O"$folder/DEBIAN/symbols" \
    -e"$folder/$lib/libdpi.so.$version" -c4 >"$stage/symbols.log" 2>&1) || { cat "$stage/symbols.log"; fail "debian/libdpi1.symbols is not what the library exports"; }
  chmod 644 "$folder/DEBIAN/symbols"
}

# deb_computed: what the package's programs and libraries need, as `Depends` has it. A libm or loader that is not used is no fault: they come
# with libc. A part of the C++ runtime names libm that the link leaves out again, and the loader of aarch64 has the guard word of stacks, for those who use it.
deb_computed() {
  local elfs
  mapfile -t elfs < <(elf_files "$folder")
  [ ${#elfs[@]} -gt 0 ] || return 0
  (cd "$stage/source" && shlibdeps -O -S"$stage/deb/libdpi1" "${elfs[@]/#/-e}" 2>"$stage/shlibdeps.log") | sed -n 's/^shlibs:Depends=//p'
  ! grep -v -e '^$' -e 'was not linked against \(libm\.so\.6\|ld-linux-aarch64\.so\.1\) ' "$stage/shlibdeps.log" >&2 || fail "$name: dpkg-shlibdeps warns"
}

deb_control() {
  local architecture computed field
  architecture="$([ "$arch" = all ] && echo all || dpkg-architecture -qDEB_HOST_ARCH)"
  computed="$(deb_computed)"
  {
    printf 'Package: %s\nSource: dpi\nVersion: %s\nArchitecture: %s\nMaintainer: %s\nInstalled-Size: %s\n' \
      "$name" "$full" "$architecture" "$PACKAGER" "$(installed_size)"
    for field in "${deb[@]}"; do
      field="${field//'${shlibs:Depends}'/$computed}"
      echo "${field//'${version}'/$full}"
    done
    printf 'Section: %s\nPriority: optional\n' "$section"
    [ -z "$multi_arch" ] || echo "Multi-Arch: $multi_arch"
    printf 'Homepage: %s\nDescription: %s\n' "$HOMEPAGE" "$summary"
    sed 's/^/ /' <<<"$about"
  } >"$folder/DEBIAN/control"
  deb_pack "$folder" "$name" "$architecture"
}

# In KiB: each file rounded up, each folder and link one.
installed_size() {
  find "$folder" -path "$folder/DEBIAN" -prune -o -mindepth 1 -printf '%y %s\n' |
    awk '{ size += $1 == "f" ? int(($2 + 1023) / 1024) : 1 } END { print size }'
}

# deb_pack FOLDER NAME ARCHITECTURE
deb_pack() {
  local file="$out/$2_${full}_$3"
  (cd "$1" && find . -path ./DEBIAN -prune -o -type f -print0 | sort -z | xargs -0 md5sum | sed 's|  \./|  |' >DEBIAN/md5sums)
  all_times "$1"
  dpkg-deb --root-owner-group -Zxz -z6 --threads-max=1 --build "$1" "$file.deb" >/dev/null
  case "$2" in *-dbgsym) ;; *) materials "$2" "$1" "$file.spdx.json" ;; esac
}

# The debug symbols, as a package of Debian's automatic kind.
deb_debug() {
  local debug="$stage/deb/$name.debug" architecture
  [ -d "$debug" ] || return 0
  architecture="$(dpkg-architecture -qDEB_HOST_ARCH)"
  mkdir -p "$debug/DEBIAN" "$debug/usr/share/doc"
  ln -s "$name" "$debug/usr/share/doc/$name-dbgsym"
  folder="$debug"
  printf '%s\n' "Package: $name-dbgsym" "Source: dpi" "Version: $full" "Auto-Built-Package: debug-symbols" "Architecture: $architecture" \
    "Maintainer: $PACKAGER" "Installed-Size: $(installed_size)" "Depends: $name (= $full)" "Section: debug" "Priority: optional" \
    ${multi_arch:+"Multi-Arch: $multi_arch"} "Description: debug symbols for $name" "Build-Ids: $(xargs <"$stage/deb/$name.ids")" >"$debug/DEBIAN/control"
  deb_pack "$debug" "$name-dbgsym" "$architecture"
}
