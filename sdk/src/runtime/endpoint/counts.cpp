#include "runtime/endpoint/counts.hpp"

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
  } catch (const std::bad_alloc&) {
    return;
  }
}

}  // namespace dpi
