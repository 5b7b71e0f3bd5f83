rpm=dpi-jni section=java
summary='Embedded inference for click-through-rate models: Java, native half'
about='The library libdpi_jni.so, through which the package libdpi-java calls
libdpi.so.1.'
files=("$jni/libdpi_jni.so")
deb=('Depends: ${shlibs:Depends}')
