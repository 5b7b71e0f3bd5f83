# No dependency on a driver: none is needed to install it, and which one fits is the machine's matter. Nor a recommendation: of
# libcuda1 Debian 12 has a version that is too old for CUDA 13.
when='[ -n "$plugin" ]'
rpm=dpi-cuda13 section=libs multi_arch=same notices=cuda
summary='Embedded inference for click-through-rate models: CUDA 13 backend'
about="The plugin that scores on a GPU (sm_$(plugin_oldest) and later). libdpi.so.1 and the
program dpi find it by themselves. It needs nothing but a driver for CUDA 13
when it runs; without one \"dpi devices\" says what is missing, and the cpu
backend goes on."
files=("$lib/dpi/backends-1/libdpi_cuda.so")
deb=('Depends: libdpi1 (= ${version}), ${shlibs:Depends}')
rpm_tags=('Requires: dpi-libs%{?_isa} = %{version}-%{release}')
