# Debian only: what the plugin is linked with, librocksdb.so.7.8, is Debian 12's; RHEL 9 has none.
only=deb section=libs multi_arch=same
summary='Embedded inference for click-through-rate models: rows in RocksDB'
about='The plugin through which libdpi.so.1 reads embedding rows from a RocksDB
database on a local disk, and writes them there. The library finds it by
itself.'
files=("$lib/dpi/backends-1/libdpi_rocksdb.so")
deb=('Depends: libdpi1 (= ${version}), ${shlibs:Depends}')
