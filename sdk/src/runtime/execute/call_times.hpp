// Times and sizes of the calls on one context. The context's holder writes them, as it does the counters
// (call_counters.hpp); a model's are the sum over its contexts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/histogram.hpp"
#include "runtime/request/stage_times.hpp"

namespace dpi {

inline constexpr int kTimeBits = 36;  // nanoseconds: up to 68.7 s
inline constexpr int kRowBits = 24;   // up to 16.8 million

/// A reading. Every count only ever grows.
struct TimeSums {
  HistogramSums<kTimeBits> call;  // from the wish for a context to the scores
  HistogramSums<kTimeBits> wait;  // of that, for a context
  std::array<HistogramSums<kTimeBits>, StageTimes::kStages> stages;  // of calls that were timed
  HistogramSums<kRowBits> rows, chunk_rows;

  void add_growth(const TimeSums& now, TimeSums* counted) {
    call.add_growth(now.call, &counted->call);
    wait.add_growth(now.wait, &counted->wait);
    for (size_t s = 0; s < stages.size(); ++s) stages[s].add_growth(now.stages[s], &counted->stages[s]);
    rows.add_growth(now.rows, &counted->rows);
    chunk_rows.add_growth(now.chunk_rows, &counted->chunk_rows);
  }
};

class CallTimes {
 public:
  /// True of one call in sixteen, without a pattern that a caller's own could fall in with. By the holder.
  bool next_is_timed() {
    turn_ += 0x9E3779B97F4A7C15u;
    return turn_ >> 60 == 0;
  }
  /// By the holder of the context only. stages: null = this call was not timed.
  void record(uint64_t call_ns, uint64_t wait_ns, int64_t rows, const StageTimes* stages) {
    call_.record(call_ns);
    wait_.record(wait_ns);
    rows_.record(static_cast<uint64_t>(rows));
    if (stages == nullptr) return;
    for (size_t s = 0; s < stages_.size(); ++s) stages_[s].record(stages->ns(s));
  }
  /// A chunk of a batcher, whose requests are recorded as calls.
  void record_chunk(int64_t rows) { chunk_rows_.record(static_cast<uint64_t>(rows)); }
  /// From any thread, also while a call runs.
  void add_to(TimeSums* sums) const {
    call_.add_to(&sums->call);
    wait_.add_to(&sums->wait);
    for (size_t s = 0; s < stages_.size(); ++s) stages_[s].add_to(&sums->stages[s]);
    rows_.add_to(&sums->rows);
    chunk_rows_.add_to(&sums->chunk_rows);
  }

 private:
  HistogramShard<kTimeBits> call_, wait_;
  std::array<HistogramShard<kTimeBits>, StageTimes::kStages> stages_;
  HistogramShard<kRowBits> rows_, chunk_rows_;
  uint64_t turn_ = 0;
};

}  // namespace dpi
