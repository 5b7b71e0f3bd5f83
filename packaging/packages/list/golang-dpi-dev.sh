rpm=golang-dpi-devel section=golang arch=all
summary='Embedded inference for click-through-rate models: Go'
about='The source of the Go module dpiframe.org/dpi, complete with its generated
files. A module uses it by "replace dpiframe.org/dpi =>
/usr/share/gocode/src/dpiframe.org/dpi"; cgo asks pkg-config for the library.'
files=(usr/share/gocode/src/dpiframe.org)
deb=('Depends: libdpi-dev (= ${version}), pkg-config' 'Suggests: golang-go (>= 2:1.19)')
rpm_tags=('Requires: dpi-devel = %{version}-%{release}, pkgconfig')
