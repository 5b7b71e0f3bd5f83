// What a model will take of a device, known before anything is loaded. Used by the engine, which refuses a
// model that cannot fit, and by `dpi inspect`, which needs no device for it.
#pragma once

#include <cstdint>

#include "base/status.hpp"
#include "plan/plan.hpp"
#include "runtime/model/options.hpp"

namespace dpi {

struct MemoryForecast {
  uint64_t tables = 0;   // fused arena, padding included
  uint64_t weights = 0;  // dense weights as the plan holds them; a backend may pack them larger
  uint64_t flight = 0;   // one flight of a context: intermediate values, packed input, scores
  int32_t flights = 1;   // of one context, at most
  int32_t contexts = 1;  // at most

  /// The least a call needs: tables, weights and one flight.
  uint64_t least() const { return tables + weights + flight; }
  /// With every context in use by calls of many chunks.
  uint64_t most() const {
    return tables + weights + flight * static_cast<uint64_t>(flights) * static_cast<uint64_t>(contexts);
  }
};

/// on_device: rows are laid out as for a GPU. alignment: of arena offsets. Fails with kOutOfMemory when sizes
/// overflow.
Result<MemoryForecast> forecast_memory(const Plan& plan, const ModelOptions& options, bool on_device,
                                       int64_t alignment);

/// The contexts a model has: the option, or as many as the machine has hardware threads.
int32_t context_count(const ModelOptions& options);

}  // namespace dpi
