// The configuration of librdkafka: our defaults, then the user's file of properties (security.protocol,
// sasl.password ...), then the settings on which the order of offsets depends, which nobody may change.
#pragma once

#include <librdkafka/rdkafka.h>

#include <memory>

#include "base/status.hpp"
#include "runtime/stream/abi/dpi_stream.h"

namespace dpi::kafka {

struct FreeConfiguration {
  void operator()(rd_kafka_conf_t* c) const { rd_kafka_conf_destroy(c); }
};
using Configuration = std::unique_ptr<rd_kafka_conf_t, FreeConfiguration>;

/// kInvalidArgument names the property, and its line where it is from the file; never a secret's value.
Result<Configuration> configure(const dpi_stream_options& options);

}  // namespace dpi::kafka
