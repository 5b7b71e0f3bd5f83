# Debian only, as the plugins for stores: what it is linked with is librdkafka.so.1 of Debian 12.
only=deb section=libs multi_arch=same notices=build
summary='Embedded inference for click-through-rate models: deltas from Kafka'
about='The plugin through which an endpoint of libdpi.so.1 takes changes of its model
from a Kafka topic. The library finds it by itself.'
files=("$lib/dpi/backends-1/libdpi_kafka.so")
deb=('Depends: libdpi1 (= ${version}), ${shlibs:Depends}')
