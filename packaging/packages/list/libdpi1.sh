# The library.
rpm=dpi-libs section=libs multi_arch=same notices=build
summary='Embedded inference for click-through-rate models: library'
about='Scores click-through-rate models inside a running C, C++, Java, Go or
Python service. A model is one file, a bundle; dpi_predict() may be called from
any thread. It needs libc and libm only; what else it is made of is linked in
and hidden.'
files=("$lib/libdpi.so.1*")
deb=('Depends: ${shlibs:Depends}' 'Suggests: libdpi1-cuda13 (= ${version})')
