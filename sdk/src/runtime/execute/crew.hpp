// Several threads on the ops of one call of few rows, in host memory. Rows would not divide: each thread
// would read all weights. So large products are cut into parts, some columns each, which whoever is there
// takes one by one; everything else stays with the caller. Nobody waits for a thread that has not come: a
// caller who is alone takes all parts. What is waited for is the end of parts that others have taken.
//
// The same thread begins with the same columns each time, so its part of the weights stays in its own cache.
// A column is computed as it would be whole, so the bits do not depend on who took it.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "runtime/engine/engine.hpp"

namespace dpi {

class Crew {
 public:
  /// scratch[m]: of member m, by stream of the plan; stays with who gave it, and outlives this. Member 0 is
  /// the caller.
  Crew(const Engine& engine, std::vector<const std::vector<std::byte*>*> scratch);

  // ---- the caller's side
  /// A call begins, with `members` threads at most.
  void open(int32_t members);
  /// True if a call of op `op` with this many rows is worth cutting.
  bool cuts(size_t op, int64_t rows) const;
  /// Does what an enqueue of a call that the backend took before does. Allocates nothing.
  void run(size_t op, const dpi_op_call& call);
  /// The call is over: the others go.
  void close();

  // ---- the others'
  /// Takes parts until the call is over, or until there has been nothing to do for kLookNs.
  void help(int32_t member);

  /// The longest that a member looks for work: longer than what a caller does between two products.
  static constexpr int64_t kLookNs = 50'000;

 private:
  int32_t take(int32_t member);
  void run_part(int32_t member, int32_t part) const;

  const Engine& engine_;
  const std::vector<const std::vector<std::byte*>*> scratch_;
  // Written by the caller before an op's word is, read by those who have taken a part of it.
  size_t op_ = 0;
  const dpi_op_call* call_ = nullptr;
  int32_t parts_ = 0;
  int32_t members_ = 1;
  // Number of the op << 33 | open << 32 | parts that nobody took. The number makes a late look harmless.
  alignas(64) std::atomic<uint64_t> word_{0};
  std::atomic<int32_t> stride_{1};  // where a member begins: a hint
  alignas(64) std::atomic<int32_t> unfinished_{0};
};

}  // namespace dpi
