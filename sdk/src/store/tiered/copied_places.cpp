#include "store/tiered/copied_places.hpp"

#include <utility>

namespace dpi::tiered {

CopiedPlaces::CopiedPlaces(const Shape& shape)
    : shape_(shape), state_(static_cast<size_t>(rows()), kNone), heat_(static_cast<size_t>(rows()), 0) {
  for (int32_t r = 0; r < rows(); ++r) {
    if (is_fixed(r)) state_[static_cast<size_t>(r)] = kLinked;
  }
  leaving_.reserve(static_cast<size_t>(shape.lines));
  warm_.reserve(kMostWarm);
}

uint64_t CopiedPlaces::bytes(const Shape& shape) {
  const auto rows = static_cast<uint64_t>(shape.reserved) + static_cast<uint64_t>(shape.places) +
                    static_cast<uint64_t>(shape.behind);
  return 2 * rows + (static_cast<uint64_t>(shape.lines) + kMostWarm) * sizeof(int32_t);
}

void CopiedPlaces::link(int32_t place, uint8_t heat) {
  const auto row = static_cast<size_t>(place + shape_.reserved);
  StdSync::store(heat_[row], heat, std::memory_order_relaxed);
  StdSync::store(state_[row], uint8_t{kLinked}, std::memory_order_release);
}

bool CopiedPlaces::unlink(int32_t place) {
  const int32_t number = place + shape_.reserved;
  const auto row = static_cast<size_t>(number);
  for (;;) {  // the cache may hold it or let it go just now
    if (StdSync::replace(state_[row], uint8_t{kLinked}, uint8_t{kNone}, std::memory_order_acq_rel))
      return true;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!StdSync::replace(state_[row], uint8_t{kHeld}, uint8_t{kLeaving}, std::memory_order_acq_rel))
      continue;
    leaving_.push_back(number);  // has room: so many are never held
    if (wake_) wake_();
    return false;
  }
}

bool CopiedPlaces::saw(int32_t place) {
  const int32_t number = place + shape_.reserved;
  const auto row = static_cast<size_t>(number);
  const uint8_t heat = StdSync::own(heat_[row]);
  if (heat < UINT8_MAX) StdSync::store(heat_[row], static_cast<uint8_t>(heat + 1), std::memory_order_relaxed);
  StdSync::fetch_add(seen_, uint64_t{1}, std::memory_order_relaxed);
  StdSync::fetch_add(seen_by_heat_[heat], uint64_t{1}, std::memory_order_relaxed);
  const uint8_t state = StdSync::own(state_[row]);
  if (state != kLinked) return state == kHeld;
  if (heat + 1 < kWarm) return false;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (warm_.size() < kMostWarm) warm_.push_back(number);
  return false;
}

bool CopiedPlaces::hold(int32_t row) {
  return StdSync::replace(state_[static_cast<size_t>(row)], uint8_t{kLinked}, uint8_t{kHeld},
                          std::memory_order_acq_rel);
}

bool CopiedPlaces::let_go(int32_t row) {
  return StdSync::replace(state_[static_cast<size_t>(row)], uint8_t{kHeld}, uint8_t{kLinked},
                          std::memory_order_acq_rel);
}

void CopiedPlaces::left(int32_t row) {
  StdSync::store(state_[static_cast<size_t>(row)], uint8_t{kNone}, std::memory_order_release);
}

CopiedPlaces::Levels CopiedPlaces::seen_by_heat() const {
  Levels seen{};
  for (size_t h = 0; h < seen.size(); ++h)
    seen[h] = StdSync::load(seen_by_heat_[h], std::memory_order_relaxed);
  return seen;
}

CopiedPlaces::Levels CopiedPlaces::rows_by_heat(int32_t first, int32_t step) const {
  Levels n{};
  for (auto row = static_cast<size_t>(first); row < heat_.size(); row += static_cast<size_t>(step)) {
    const uint8_t state = StdSync::own(state_[row]);
    if (state == kLinked || state == kHeld) n[StdSync::own(heat_[row])] += static_cast<uint64_t>(step);
  }
  return n;
}

void CopiedPlaces::cool() {
  for (uint8_t& h : heat_)
    StdSync::store(h, static_cast<uint8_t>(StdSync::own(h) / 2), std::memory_order_relaxed);
}

void CopiedPlaces::take_leaving(std::vector<int32_t>* to) {
  const std::lock_guard<std::mutex> lock(mutex_);
  to->insert(to->end(), leaving_.begin(), leaving_.end());
  leaving_.clear();
}

uint64_t CopiedPlaces::take_warm(std::vector<int32_t>* to) {
  const std::lock_guard<std::mutex> lock(mutex_);
  to->insert(to->end(), warm_.begin(), warm_.end());
  warm_.clear();
  const uint64_t seen = StdSync::own(seen_);
  StdSync::store(seen_, uint64_t{0}, std::memory_order_relaxed);
  return seen;
}

void CopiedPlaces::on_leaving(std::function<void()> wake) {
  const std::lock_guard<std::mutex> lock(mutex_);
  wake_ = std::move(wake);
}

}  // namespace dpi::tiered
