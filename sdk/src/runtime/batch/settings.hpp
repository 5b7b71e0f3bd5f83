// How a batcher merges: the keys of dpi/batcher.h.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.hpp"

namespace dpi {

struct BatchSettings {
  int64_t max_rows = 128;    // of a chunk
  int64_t max_delay_us = 0;  // the first request of a chunk waits so long for others
  int64_t running = 0;       // chunks and single requests at once; 0 = by the model
  int64_t queue = 4;         // chunks that wait
  int64_t threads = 1;       // that run what is submitted

  static constexpr int64_t kMostRows = 4096, kMostRunning = 40, kMostQueue = 16;
};

/// True for keys that set_batch_setting may know.
inline bool is_batch_setting(std::string_view key) { return key.starts_with("batch."); }
/// kNotFound for an unknown key, kInvalidArgument for a bad value.
Status set_batch_setting(BatchSettings* settings, std::string_view key, std::string_view value);

}  // namespace dpi
