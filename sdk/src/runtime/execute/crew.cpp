#include "runtime/execute/crew.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/spin.hpp"

namespace dpi {

namespace {

constexpr uint64_t kOpen = uint64_t{1} << 32, kNumber = uint64_t{1} << 33;
constexpr int32_t kMostParts = 32;  // bits of a word

// A caller whose helper was sent off its processor sleeps after so long.
constexpr int64_t kHelperPatienceNs = 100'000;

uint32_t free_parts(uint64_t word) { return static_cast<uint32_t>(word); }

}  // namespace

Crew::Crew(const Engine& engine, std::vector<const std::vector<std::byte*>*> scratch)
    : engine_(engine), scratch_(std::move(scratch)) {}

void Crew::open(int32_t members) {
  members_ = std::min(members, static_cast<int32_t>(scratch_.size()));
  word_.store(word_.load(std::memory_order_relaxed) | kOpen, std::memory_order_relaxed);
}

void Crew::close() { word_.store(word_.load(std::memory_order_relaxed) & ~kOpen, std::memory_order_release); }

bool Crew::cuts(size_t op, int64_t rows) const { return rows >= engine_.op_cut(op).from_rows; }

void Crew::run_part(int32_t member, int32_t part) const {
  dpi_op_call call = *call_;
  call.scratch =
      (*scratch_[static_cast<size_t>(member)])[static_cast<size_t>(engine_.plan().ops[op_].stream)];
  engine_.api().run_part(engine_.op(op_), &call, part, parts_);
}

/// A part that is the member's from now on, -1 when there is none. Its own columns first, then what is left.
int32_t Crew::take(int32_t member) {
  uint64_t word = word_.load(std::memory_order_acquire);
  while (free_parts(word) != 0) {
    const int32_t own = std::min(member * stride_.load(std::memory_order_relaxed), kMostParts - 1);
    const uint32_t behind = free_parts(word) >> own << own;
    const int32_t part = std::countr_zero(behind != 0 ? behind : free_parts(word));
    if (word_.compare_exchange_weak(word, word & ~(uint64_t{1} << part), std::memory_order_acq_rel,
                                    std::memory_order_acquire))
      return part;
  }
  return -1;
}

void Crew::run(size_t op, const dpi_op_call& call) {
  const OpCut& cut = engine_.op_cut(op);
  op_ = op;
  call_ = &call;
  // Two parts a thread: many columns in one are multiplied faster than the same in several, and of a thread
  // that is late another can still take a half. What a part does first for all of its rows is done once per
  // thread.
  const int32_t parts_wanted = cut.parts.begins_with_rows ? members_ : 2 * members_;
  parts_ = std::min({cut.parts.most, kMostParts, parts_wanted});
  stride_.store((parts_ + members_ - 1) / members_, std::memory_order_relaxed);
  unfinished_.store(parts_, std::memory_order_relaxed);
  const uint64_t number = (word_.load(std::memory_order_relaxed) & ~(kNumber - 1)) + kNumber;
  const uint32_t all = parts_ == kMostParts ? ~uint32_t{0} : (uint32_t{1} << parts_) - 1;
  word_.store(number | kOpen | all, std::memory_order_release);
  int32_t mine = 0;
  for (int32_t part = take(0); part >= 0; part = take(0), ++mine) run_part(0, part);
  unfinished_.fetch_sub(mine, std::memory_order_relaxed);
  if (spin(kHelperPatienceNs, [this] { return unfinished_.load(std::memory_order_acquire) == 0; })) return;
  for (int32_t n = 0; (n = unfinished_.load(std::memory_order_acquire)) != 0;)
    unfinished_.wait(n, std::memory_order_acquire);
}

void Crew::help(int32_t member) {
  const auto called = [this] {
    const uint64_t word = word_.load(std::memory_order_acquire);
    return free_parts(word) != 0 || (word & kOpen) == 0;
  };
  while (!engine_.pool().crowded(members_ - 1) && spin(kLookNs, called)) {
    int32_t mine = 0;
    for (int32_t part = take(member); part >= 0; part = take(member), ++mine) run_part(member, part);
    if (mine > 0 && unfinished_.fetch_sub(mine, std::memory_order_acq_rel) == mine) unfinished_.notify_one();
    if (mine == 0 && (word_.load(std::memory_order_relaxed) & kOpen) == 0) return;
  }
}

}  // namespace dpi
