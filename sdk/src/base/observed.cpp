#include "base/observed.hpp"

#include <utility>

namespace dpi {

void ObservedSet::add(const Observed& one, const std::string& kind, const std::string& label) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Key key(kind, label);
  for (int n = 2; all_.count(key) != 0; ++n) key.second = label + "#" + std::to_string(n);
  all_.emplace(std::move(key), &one);
}

void ObservedSet::remove(const Observed& one) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::erase_if(all_, [&](const auto& entry) { return entry.second == &one; });
}

void ObservedSet::write_all(MetricsPage* page) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [key, one] : all_) one->write_metrics(key.second, page);
}

}  // namespace dpi
