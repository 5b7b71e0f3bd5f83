rpm=dpi-devel section=libdevel multi_arch=same
summary='Embedded inference for click-through-rate models: development'
about='The headers <dpi/dpi.h>, <dpi/endpoint.h> and others, the link for the
linker, files for pkg-config (dpi) and for find_package(dpi) of CMake, and
programs to start from in C, C++, Java, Go and Python, two HTTP services among
them, with models and rows that they score.'
files=("$lib/libdpi.so" usr/include/dpi "$lib/pkgconfig/dpi.pc" "$lib/cmake/dpi" "$examples")
deb=('Depends: libdpi1 (= ${version})' 'Suggests: cmake, dpi-doc, pkg-config')
rpm_tags=('Requires: dpi-libs%{?_isa} = %{version}-%{release}')
