#include "base/gate.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "base/static_tls.hpp"

namespace dpi {

namespace {

/// How long drain() sleeps between two looks: a stay lasts as long as it takes to claim a context.
constexpr std::chrono::microseconds kFirstLook{20}, kLongestLook{1000};

/// Where this thread begins to look for a line. Threads start apart, and one that finds its line taken moves
/// on and stays there.
uint32_t& preferred() {
  static std::atomic<uint32_t> next{0};
  DPI_STATIC_TLS thread_local uint32_t mine = next.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

}  // namespace

Result<std::unique_ptr<Gate>> Gate::make(int32_t lines) {
  std::unique_ptr<Gate> gate(new Gate());
  gate->lines_.reserve(static_cast<size_t>(lines));
  for (int32_t i = 0; i < lines; ++i) {
    // Processors fetch lines in pairs: every other one is left alone.
    DPI_ASSIGN_OR_RETURN(EpochsT<StdSync>::Line * used, gate->epochs_.add_reader());
    DPI_RETURN_IF_ERROR(gate->epochs_.add_reader().status());
    gate->lines_.push_back(used);
  }
  return gate;
}

Gate::Pass::Pass(Gate& gate) : gate_(gate) {
  uint32_t& first = preferred();
  const auto n = static_cast<uint32_t>(gate.lines_.size());
  for (uint32_t k = 0, i = first % n; k < n; ++k, i = i + 1 < n ? i + 1 : 0) {
    if (!gate.epochs_.try_enter(*gate.lines_[i])) continue;
    line_ = gate.lines_[i];
    if (k != 0) first += k;
    return;
  }
  side_ = gate.enter_crowd();
}

int32_t Gate::enter_crowd() {
  const std::lock_guard<std::mutex> lock(crowd_mutex_);
  ++crowd_[side_];
  return side_;
}

void Gate::leave_crowd(int32_t side) {
  const std::lock_guard<std::mutex> lock(crowd_mutex_);
  --crowd_[side];
}

void Gate::drain() {
  const std::lock_guard<std::mutex> one_at_a_time(drain_mutex_);
  const uint64_t tag = epochs_.bump();
  int32_t side = 0;
  {
    // Whoever joins the crowd after this has the lock from here, and so sees what was replaced before.
    const std::lock_guard<std::mutex> lock(crowd_mutex_);
    side = side_;
    side_ = 1 - side_;
  }
  const auto crowded = [&] {
    const std::lock_guard<std::mutex> lock(crowd_mutex_);
    return crowd_[side] != 0;
  };
  for (auto pause = kFirstLook; epochs_.oldest() <= tag || crowded();
       pause = std::min(2 * pause, kLongestLook))
    std::this_thread::sleep_for(pause);
}

}  // namespace dpi
