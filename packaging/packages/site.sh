# shellcheck shell=bash
# The package of the documentation: the site, and what says which of its files come from elsewhere.

# stage_site: made once for both formats. It shows the help and the plans of the program that is packed.
stage_site() {
  [ -d "$stage/site" ] || make_site
  mkdir -p "$all/usr/share/doc/dpi-doc"
  cp -r "$stage/site" "$all/usr/share/doc/dpi-doc/html"
}

make_site() {
  say "the site of the documentation: less than a minute of a processor"
  "$ROOT/packaging/doc/build.sh" --out "$stage/site" --program "$tree/bin/dpi" >"$stage/site.log" 2>&1 ||
    { tail -n 20 "$stage/site.log"; fail "the documentation is not made; packaging/setup.sh docs bindings installs what it needs"; }
  site_notices
}

# Javadoc's script and style are files of OpenJDK's, copied into every site that it makes.
site_notices() {
  local java license="GPL-2.0-only WITH Classpath-exception-2.0" url=https://openjdk.org text
  java="$(javadoc --version | sed 's/^javadoc //')"
  text="${DPI_COPYRIGHT_javadoc:-/usr/share/doc/openjdk-${java%%.*}-jdk-headless/copyright}"
  [ -f "$text" ] || fail "no licence of javadoc at $text; DPI_COPYRIGHT_javadoc=FILE names another"
  printf 'set(names javadoc)\nset(javadoc_version "%s")\nset(javadoc_license "%s")\nset(javadoc_url "%s")\nset(javadoc_inside "script.js;stylesheet.css")
set(javadoc_relation EXPANDED_FROM_ARCHIVE)\n' "$java" "$license" "$url" >"$stage/site.cmake"
  mkdir -p "$stage/site_notices/licenses"
  cp "$text" "$stage/site_notices/licenses/javadoc.txt"
  printf '# Third-party files in the documentation of the DPIFrame SDK %s

The documentation itself is licensed under Apache-2.0. Copied into it are:

| name | version | licence (SPDX) | in | text |
|---|---|---|---|---|
| javadoc | %s | %s | `html/java/script.js`, `html/java/stylesheet.css` | `licenses/javadoc.txt` |\n' "$version" "$java" "$license" >"$stage/site_notices/THIRD_PARTY.md"
}
