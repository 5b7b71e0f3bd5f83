// Which ops come before which: one bit per pair. Used by schedule and memory; the checker has its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/analysis/ir.hpp"

namespace dpi::plan {

/// Above this many ops only the single-stream schedule is made and no pairs of bits are kept.
constexpr size_t kMaxPairOps = 4096;

using Edges = std::vector<std::vector<int32_t>>;  // successors per op

class Reach {
 public:
  /// succs must be acyclic with edges from lower to higher positions of `order` (a topological order of all
  /// ops).
  Reach(const Edges& succs, const std::vector<int32_t>& order);

  /// A path of one edge or more leads from a to b.
  bool operator()(int32_t a, int32_t b) const { return (row(a)[b >> 6] >> (b & 63)) & 1; }
  size_t words() const { return words_; }
  const uint64_t* row(int32_t a) const { return bits_.data() + static_cast<size_t>(a) * words_; }

 private:
  size_t words_ = 0;
  std::vector<uint64_t> bits_;
};

/// The edges that no longer path implies.
Edges transitive_reduction(const Edges& succs, const Reach& reach);

/// The order that streams and events impose, and nothing else: consecutive ops of a stream, and record ->
/// wait. Ops are in issue order.
Edges execution_edges(const Plan& plan);

}  // namespace dpi::plan
