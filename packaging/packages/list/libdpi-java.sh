rpm=dpi-java section=java arch=all
summary='Embedded inference for click-through-rate models: Java'
about='The package org.dpiframe, for Java 17 and later, as /usr/share/java/dpi.jar.
Its native half is the package libdpi-jni.'
files=(usr/share/java $maven)
deb=('Depends: libdpi-jni (= ${version})' 'Suggests: default-jre-headless')
rpm_tags=('Requires: dpi-jni = %{version}-%{release}')
