# shellcheck shell=bash
# The .rpm packages of what ../build.sh has staged: one description for rpmbuild, which copies, computes what each needs and provides,
# and packs.

make_rpms() {
  local spec="$stage/dpi.spec" root="$stage/rpm/root"
  say "rpm: packing: less than a minute of a processor"
  mkdir -p "$root"
  each rpm rpm_documents
  { rpm_head; each rpm rpm_package; rpm_debug; rpm_changelog; } >"$spec"
  rpmbuild -bb "${rpm_target[@]}" --quiet --define "_topdir $stage/rpmbuild" --define "_rpmdir $stage/rpms" --define "_build_name_fmt %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm" \
    --buildroot "$stage/buildroot" "$spec" >"$stage/rpm.log" 2>&1 || { tail -n 30 "$stage/rpm.log"; fail "rpmbuild failed"; }
  mv "$stage"/rpms/*.rpm "$out/"
  each rpm rpm_materials
}

rpm_documents() {
  mkdir -p "$folder/usr/share/licenses/$rpm"
  cp "$ROOT/LICENSE" "$folder/usr/share/licenses/$rpm/"
}

# The files lie ready: nothing is compiled, stripped, compressed or rewritten.
rpm_head() {
  cat <<SPEC
%global debug_package %{nil}
%global __os_install_post %{nil}
%global _build_id_links none
%global _buildhost localhost
%global use_source_date_epoch_as_buildtime 1
%global clamp_mtime_to_source_date_epoch 1
%global _binary_payload w19.zstdio
%global _source_payload w19.zstdio
%global __provides_exclude_from ^/($lib/dpi|usr/share/doc)/.*$
%global __requires_exclude_from ^/usr/share/doc/.*$
Name: dpi
Version: $version
Release: $revision
Summary: Embedded inference for click-through-rate models
License: Apache-2.0
URL: $HOMEPAGE
Packager: $PACKAGER

%description
The packages of the DPIFrame SDK.

%install
mkdir -p %{buildroot}
cp -a $stage/rpm/root/. %{buildroot}/

SPEC
}

rpm_package() {
  all_times "$folder"
  cp -a "$folder/." "$stage/rpm/root/"
  printf '%%package -n %s\nSummary: %s\n' "$rpm" "$summary"
  [ "$arch" != all ] || echo "BuildArch: noarch"
  [ ${#rpm_tags[@]} -eq 0 ] || printf '%s\n' "${rpm_tags[@]}"
  printf '%%description -n %s\n%s\n\n%%files -n %s\n%%defattr(-,root,root,-)\n' "$rpm" "$about" "$rpm"
  rpm_files "$folder"
  echo
}

# rpm_files FOLDER: its files, and the folders that belong to no package of the system.
rpm_files() {
  (cd "$1" && find . -mindepth 1 -type d -printf '%P\n' | sort | while read -r path; do
    rpm_systems_own "$path" || echo "%dir \"/$path\""
  done)
  (cd "$1" && find . ! -type d -printf '"/%P"\n' | sort)
}

rpm_systems_own() {
  case "/$1" in
    /usr | /usr/bin | /usr/include | /usr/lib | /usr/lib64 | /usr/share | /usr/lib64/pkgconfig | /usr/lib64/cmake) return 0 ;;
    /usr/share/doc | /usr/share/licenses | /usr/share/man | /usr/share/man/man1 | /usr/share/java) return 0 ;;
    /usr/lib/python3.* | /usr/lib64/python3.*) [[ "$1" != */dpi* ]] ;;
    /usr/lib/debug | /usr/lib/debug/.build-id) return 0 ;;
    *) return 1 ;;
  esac
}

rpm_debug() {
  local folder found=no
  for folder in "$stage"/rpm/*.debug; do
    [ -d "$folder" ] || continue
    all_times "$folder"
    cp -a "$folder/." "$stage/rpm/root/"
    [ $found = yes ] || printf '%%package -n dpi-debuginfo\nSummary: Debug symbols of the DPIFrame SDK\nAutoReqProv: no\n%%description -n dpi-debuginfo
Debug symbols of the programs and libraries of the DPIFrame SDK.\n\n%%files -n dpi-debuginfo\n%%defattr(-,root,root,-)\n'
    found=yes
    rpm_files "$folder"
  done
}

rpm_changelog() {
  printf '\n%%changelog\n* %s %s - %s\n- Version %s\n' "$(LC_ALL=C date -u -d "@$SOURCE_DATE_EPOCH" '+%a %b %d %Y')" "$PACKAGER" "$full" "$version"
}

rpm_materials() {
  local file
  file="$(echo "$out/$rpm-$full."*.rpm)"
  [ -f "$file" ] || fail "rpmbuild made no $rpm"
  materials "$rpm" "$folder" "${file%.rpm}.spdx.json"
}
