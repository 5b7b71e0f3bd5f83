// Histograms of times and sizes with log-linear buckets: sixteen to an octave, so that the middle of a bucket
// is within 3.2 % of every value in it. Whoever measures writes a shard of its own, a few plain stores on
// lines that nobody else writes; whoever reads sums the shards.
//
//   HistogramShard<36> mine;  mine.record(ns);               (one thread at a time)
//   HistogramSums<36> all;    shard.add_to(&all);  all.quantile(0.99)
//
// A bucket holds the values above its lower end, up to its upper end: as the buckets of Prometheus do.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dpi {

/// Buckets of values up to 2^kBits; the last one, kOverflow, has those above.
template <int kBits>
struct LogLinear {
  static_assert(kBits > 4 && kBits < 64);
  static constexpr size_t kPerOctave = 16;
  static constexpr size_t kOverflow = (static_cast<size_t>(kBits) - 3) * kPerOctave;
  static constexpr size_t kBuckets = kOverflow + 1;

  /// 0 lies with 1.
  static constexpr size_t index(uint64_t value) {
    const uint64_t v = value == 0 ? 0 : value - 1;
    if (v < kPerOctave) return v;
    const int octave = std::bit_width(v) - 1;
    return std::min(static_cast<size_t>(octave - 3) * kPerOctave + ((v >> (octave - 4)) & (kPerOctave - 1)),
                    kOverflow);
  }
  /// The largest value of bucket i; of kOverflow what lies below it.
  static constexpr uint64_t upper(size_t i) { return i >= kOverflow ? lower(kOverflow) : lower(i + 1); }
  /// Values of bucket i are larger, but for 0 in the first.
  static constexpr uint64_t lower(size_t i) {
    if (i < kPerOctave) return i;
    return (kPerOctave + i % kPerOctave) << (i / kPerOctave - 1);
  }
};

/// A reading: the sum of shards. All memory is taken when it is made.
template <int kBits>
class HistogramSums {
 public:
  using Buckets = LogLinear<kBits>;

  uint64_t bucket(size_t i) const { return counts_[i]; }
  uint64_t sum() const { return sum_; }
  uint64_t count() const {
    uint64_t n = 0;
    for (const uint64_t c : counts_) n += c;
    return n;
  }
  void add(size_t bucket, uint64_t n) { counts_[bucket] += n; }
  void add_to_sum(uint64_t n) { sum_ += n; }
  /// Adds what `now` has and `counted` has not, and makes `counted` as `now`: of counts that only grow.
  void add_growth(const HistogramSums& now, HistogramSums* counted) {
    for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += now.counts_[i] - counted->counts_[i];
    sum_ += now.sum_ - counted->sum_;
    *counted = now;
  }
  /// The middle of the bucket in which the value of rank ceil(q * count) lies; NaN without values, infinity
  /// above the last bound.
  double quantile(double q) const {
    const uint64_t all = count();
    if (all == 0) return std::nan("");
    const double rank = std::clamp(std::ceil(q * static_cast<double>(all)), 1.0, static_cast<double>(all));
    uint64_t before = 0;
    size_t i = 0;
    while ((before += counts_[i]) < static_cast<uint64_t>(rank)) ++i;
    if (i == Buckets::kOverflow) return HUGE_VAL;
    return (static_cast<double>(Buckets::lower(i) + 1) + static_cast<double>(Buckets::upper(i))) / 2;
  }

 private:
  std::vector<uint64_t> counts_ = std::vector<uint64_t>(Buckets::kBuckets);
  uint64_t sum_ = 0;
};

/// The values of one writer. Allocates nothing. 128 bytes an octave.
template <int kBits>
class HistogramShard {
 public:
  using Buckets = LogLinear<kBits>;

  /// By one thread at a time, so plain additions are enough.
  void record(uint64_t value) {
    bump(counts_[Buckets::index(value)], 1);
    if (value != 0) bump(sum_, value);
  }
  /// From any thread, also while the writer records.
  void add_to(HistogramSums<kBits>* sums) const {
    for (size_t i = 0; i < Buckets::kBuckets; ++i) {
      if (const uint64_t n = counts_[i].load(std::memory_order_relaxed); n != 0) sums->add(i, n);
    }
    sums->add_to_sum(sum_.load(std::memory_order_relaxed));
  }

 private:
  static void bump(std::atomic<uint64_t>& cell, uint64_t n) {
    cell.store(cell.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }

  alignas(64) std::atomic<uint64_t> sum_{0};
  std::array<std::atomic<uint64_t>, Buckets::kBuckets> counts_{};
};

}  // namespace dpi
