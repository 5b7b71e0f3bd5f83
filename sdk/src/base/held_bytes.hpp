// Bytes that are allocated now. Whoever allocates adds, whoever gives back takes off; nothing is forecast.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace dpi {

/// A model's, and with `sum` those of its endpoint too. Counted where memory is allocated, so that a block
/// which another model has taken over stays in the count of the model that allocated it.
class HeldBytes {
 public:
  explicit HeldBytes(std::shared_ptr<HeldBytes> sum = nullptr) : sum_(std::move(sum)) {}
  HeldBytes(const HeldBytes&) = delete;
  HeldBytes& operator=(const HeldBytes&) = delete;

  /// bytes: negative when they were given back.
  void add(int64_t bytes, bool on_device) noexcept {
    (on_device ? device_ : host_).fetch_add(bytes, std::memory_order_relaxed);
    if (sum_ != nullptr) sum_->add(bytes, on_device);
  }
  uint64_t host() const { return whole(host_); }
  uint64_t device() const { return whole(device_); }

 private:
  static uint64_t whole(const std::atomic<int64_t>& n) {
    return static_cast<uint64_t>(std::max<int64_t>(0, n.load(std::memory_order_relaxed)));
  }

  const std::shared_ptr<HeldBytes> sum_;
  std::atomic<int64_t> host_{0}, device_{0};
};

/// Bytes that go with their owner.
class HeldCount {
 public:
  HeldCount() = default;  // of nothing
  HeldCount(std::shared_ptr<HeldBytes> of, uint64_t bytes, bool on_device = false)
      : of_(std::move(of)), bytes_(static_cast<int64_t>(bytes)), on_device_(on_device) {
    if (of_ != nullptr) of_->add(bytes_, on_device_);
  }
  HeldCount(HeldCount&& other) noexcept { swap(other); }
  HeldCount& operator=(HeldCount&& other) noexcept {
    HeldCount gone;
    gone.swap(*this);
    swap(other);
    return *this;
  }
  ~HeldCount() {
    if (of_ != nullptr) of_->add(-bytes_, on_device_);
  }

 private:
  void swap(HeldCount& other) noexcept {
    std::swap(of_, other.of_);
    std::swap(bytes_, other.bytes_);
    std::swap(on_device_, other.on_device_);
  }

  std::shared_ptr<HeldBytes> of_;
  int64_t bytes_ = 0;
  bool on_device_ = false;
};

}  // namespace dpi
