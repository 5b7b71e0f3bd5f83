# Debian only: what the plugin is linked with, libhiredis.so.0.14, is Debian 12's; RHEL 9 has none.
only=deb section=libs multi_arch=same notices=build
summary='Embedded inference for click-through-rate models: rows in Redis'
about='The plugin through which libdpi.so.1 reads embedding rows from a Redis server
or a Redis Cluster, and writes them there. The library finds it by itself.'
files=("$lib/dpi/backends-1/libdpi_redis.so")
deb=('Depends: libdpi1 (= ${version}), ${shlibs:Depends}')
