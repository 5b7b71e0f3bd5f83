// How many rows and users a chunk may have, within bytes. A user's values may be a thousand times a row's (a
// history of so many positions), so a flight's memory is planned several times: for as many users as fit,
// and for fewer of them with more rows. A chunk takes the form that holds most of its call.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.hpp"

namespace dpi {

/// Bounds of a chunk and of its values.
struct ChunkBounds {
  int64_t max_rows = 1;
  int64_t bytes = 0;  // of values; one row of one user may have more
  int64_t alignment = 64;
  bool buckets = false;  // sizes are batch buckets, or max_rows: a device rounds rows and users up to these
};

struct ChunkForm {
  int64_t rows = 0, users = 0;
  MemoryPlan memory;
};

class ChunkForms {
 public:
  static Result<ChunkForms> make(const Plan& plan, const ChunkBounds& bounds);

  /// The most rows of a chunk, and its most users: as many rows may be without a shared part.
  int64_t rows() const { return all_.back().rows; }
  int64_t users() const { return all_.front().users; }
  /// The largest form has so many.
  int64_t arena_bytes() const;
  /// From one to the next there are fewer users and more rows.
  const std::vector<ChunkForm>& all() const { return all_; }
  /// Where values lie in a chunk of so many, which some form holds. The same for equal sizes: captured graphs
  /// have the addresses.
  const MemoryPlan& memory_for(int64_t rows, int64_t users) const;

 private:
  std::vector<ChunkForm> all_;
};

/// Whose rows an op computes.
RowSpace space_of(const Plan& plan, const PlanOp& op);

/// How many rows take as long as what is done once per user.
double rows_per_user(const Plan& plan);

}  // namespace dpi
