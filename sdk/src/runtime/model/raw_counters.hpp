// Counts of the raw values given to one RawRows, by outcome. The thread that fills the rows writes them;
// whoever asks the model for its counters reads them. A model's counts are the sum over its contexts and its
// raw rows.
#pragma once

#include "runtime/execute/call_counters.hpp"
#include "runtime/execute/counter_lines.hpp"

namespace dpi {

class RawCounters {
 public:
  enum class Cause {
    kMissing,  // an element of a sequence that leaves its bag; other missing values are counted when scored
    kUnknown,  // not in the vocabulary of the feature's encoder
    kUnparsable,  // refused by the encoder: no number, no integer, out of a step's domain
  };

  explicit RawCounters(size_t features) : features_(features), counts_(kCauses * features) {}

  void add(int32_t feature, Cause cause) {
    counts_.add(kCauses * static_cast<size_t>(feature) + static_cast<size_t>(cause), 1);
  }

  void add_to(CounterSums* sums) const {
    for (size_t f = 0; f < features_; ++f) {
      FeatureSums& to = sums->by_feature[f];
      to.missing += counts_.get(kCauses * f + static_cast<size_t>(Cause::kMissing));
      to.unknown += counts_.get(kCauses * f + static_cast<size_t>(Cause::kUnknown));
      to.unparsable += counts_.get(kCauses * f + static_cast<size_t>(Cause::kUnparsable));
    }
  }

 private:
  static constexpr size_t kCauses = 3;
  size_t features_;
  CounterLines counts_;
};

}  // namespace dpi
