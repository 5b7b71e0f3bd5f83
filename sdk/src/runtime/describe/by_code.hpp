// Counts by Code, as JSON: {"9": 3}, codes without one left out.
#pragma once

#include <cstdint>
#include <string>

#include "base/json_text.hpp"
#include "runtime/execute/call_counters.hpp"

namespace dpi {

inline void write_by_code(JsonWriter* w, const char* key, const uint64_t (&counts)[CounterSums::kCodes]) {
  w->begin_object(key);
  for (size_t c = 1; c < CounterSums::kCodes; ++c)
    if (counts[c] != 0) w->field(std::to_string(c), counts[c]);
  w->end_object();
}

}  // namespace dpi
