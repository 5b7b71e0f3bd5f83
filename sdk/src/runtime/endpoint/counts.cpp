#include "runtime/endpoint/counts.hpp"

#include <algorithm>
#include <iterator>
#include <new>

#include "runtime/model/model.hpp"

namespace dpi {

void EndpointCounts::OfVersion::settle(const Model& model) noexcept {
  try {
    const std::lock_guard<std::mutex> lock(all_->mutex_);
    const CounterSums now = model.counts();
    Sums& sums = all_->sums_;
    const auto add = [](uint64_t* sum, uint64_t* counted, uint64_t all) {
      *sum += all - *counted;
      *counted = all;
    };
    add(&sums.calls, &counted_.calls, now.calls);
    add(&sums.rows, &counted_.rows, now.rows);
    add(&sums.nonfinite_rows, &counted_.nonfinite_rows, now.nonfinite_rows);
    add(&sums.waits, &counted_.waits, now.waits);
    for (size_t c = 0; c < CounterSums::kCodes; ++c) add(&sums.errors[c], &counted_.errors[c], now.errors[c]);
    sums.times.add_growth(now.times, &counted_.times);
  } catch (const std::bad_alloc&) {
    return;
  }
}

void EndpointCounts::OfVersion::close(const Model& model) noexcept {
  settle(model);
  try {
    std::vector<SlowCalls::Text> slow = model.slow_calls();
    const std::lock_guard<std::mutex> lock(all_->mutex_);
    std::vector<SlowCalls::Text>& all = all_->slow_;
    all.insert(all.end(), std::make_move_iterator(slow.begin()), std::make_move_iterator(slow.end()));
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.at_ms < b.at_ms; });
    if (all.size() > SlowCalls::kKept)
      all.erase(all.begin(), all.end() - static_cast<ptrdiff_t>(SlowCalls::kKept));
  } catch (const std::bad_alloc&) {
    return;
  }
}

}  // namespace dpi
