// Rows into a store while others read it, no faster than a rate: in pieces of a tenth of a second's bytes, a
// sleep after each. A store that holds a lease for who writes (Redis) hears of a writer that sleeps long.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/rate.hpp"
#include "store/external/stored_tables.hpp"
#include "store/tiered/plugin_source.hpp"

namespace dpi {

class PacedUpdate {
 public:
  /// Table `number` of `store`, whose update has begun. All must outlive it.
  PacedUpdate(tiered::PluginSource& store, int32_t number, Rate& rate, const RowProgress& progress)
      : store_(store), number_(number), rate_(rate), progress_(progress) {}

  /// One row of each key, or none: the keys are gone. `end`: changes of the table that are done after these.
  /// What progress says instead of yes ends it.
  Status write(std::span<const int64_t> keys, std::span<const std::byte> rows, int64_t end);

 private:
  Status rest(uint64_t bytes, int64_t done);

  tiered::PluginSource& store_;
  int32_t number_;
  Rate& rate_;
  const RowProgress& progress_;
};

}  // namespace dpi
