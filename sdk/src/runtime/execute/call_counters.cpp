#include "runtime/execute/call_counters.hpp"

namespace dpi {

CallCounters::CallCounters(size_t features) : features_(features), counts_(kFeatures + kCauses * features) {}

void CallCounters::add_call(int64_t rows, std::span<const FeatureCounters> met) {
  counts_.add(kCalls, 1);
  counts_.add(kRows, static_cast<uint64_t>(rows));
  for (size_t f = 0; f < met.size(); ++f) {
    const uint64_t n[kCauses] = {met[f].missing, met[f].out_of_range, met[f].cut, met[f].absent};
    for (size_t k = 0; k < kCauses; ++k) {
      if (n[k] != 0) counts_.add(kFeatures + kCauses * f + k, n[k]);
    }
  }
}

void CallCounters::add_users(const UserCounts& n) {
  const uint64_t all[] = {n.hits, n.misses, n.repeats, n.drops};
  for (size_t k = 0; k < 4; ++k)
    if (all[k] != 0) counts_.add(kUsers + k, all[k]);
}

void CallCounters::add_to(CounterSums* sums) const {
  sums->calls += counts_.get(kCalls);
  sums->rows += counts_.get(kRows);
  sums->nonfinite_rows += counts_.get(kNonfinite);
  sums->users.hits += counts_.get(kUsers);
  sums->users.misses += counts_.get(kUsers + 1);
  sums->users.repeats += counts_.get(kUsers + 2);
  sums->users.drops += counts_.get(kUsers + 3);
  for (size_t c = 0; c < CounterSums::kCodes; ++c) sums->errors[c] += counts_.get(kErrors + c);
  for (size_t f = 0; f < features_; ++f) {
    FeatureSums& to = sums->by_feature[f];
    const size_t first = kFeatures + kCauses * f;
    to.missing += counts_.get(first);
    to.out_of_range += counts_.get(first + 1);
    to.cut += counts_.get(first + 2);
    to.absent += counts_.get(first + 3);
  }
}

}  // namespace dpi
