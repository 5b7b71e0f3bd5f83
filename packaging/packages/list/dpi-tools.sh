rpm=dpi-tools section=science notices=build
summary='Embedded inference for click-through-rate models: program'
about='The program dpi shows what a bundle holds and how it will be run, scores CSV
files, verifies and signs bundles, and measures. "dpi repack" runs the
package python3-dpi-export.'
files=(usr/bin/dpi 'usr/share/man/man1/dpi*')
deb=('Depends: ${shlibs:Depends}' 'Recommends: python3-dpi-export (= ${version})' 'Suggests: graphviz, libdpi1-cuda13 (= ${version})')
rpm_tags=('Recommends: python3-dpi-export = %{version}-%{release}')
