// How an endpoint behaves, set by string pairs. endpoint.h lists keys, values and defaults.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.hpp"

namespace dpi {

struct EndpointSettings {
  int64_t keep_seconds = 300;    // the version before stays for a rollback
  bool golden = true;            // golden rows are recomputed before a version serves
  int64_t warm_up_rows = 64;     // 0 = no warm-up
  int64_t follow_ms = 1000;      // between two looks into a folder
  int64_t bytes_per_second = 0;  // that a load reads at most; 0 = any
  int64_t spare_rows = 1;        // percent of a large table's rows
  int64_t back_off_ms = 60000;   // the longest of such pauses, after errors
};

/// Unknown key: kNotFound with the list of keys; bad value: kInvalidArgument with what is allowed.
Status set_setting(EndpointSettings* settings, std::string_view key, std::string_view value);

}  // namespace dpi
