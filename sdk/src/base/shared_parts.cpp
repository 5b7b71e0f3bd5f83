#include "base/shared_parts.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.hpp"

namespace dpi {

SharedParts::Claim::~Claim() {
  if (owner_ == nullptr) return;
  const std::lock_guard<std::mutex> lock(owner_->mutex_);
  for (const std::string& key : keys_) {
    const auto e = owner_->entries_.find(key);
    if (e != owner_->entries_.end() && e->second.maker == heard_) owner_->entries_.erase(e);
  }
}

void SharedParts::Claim::swap(Claim& other) noexcept {
  std::swap(owner_, other.owner_);
  keys_.swap(other.keys_);
  parts_.swap(other.parts_);
  heard_.swap(other.heard_);
}

void SharedParts::Claim::publish(size_t i, const Part& part) {
  const std::lock_guard<std::mutex> lock(owner_->mutex_);
  Entry& e = owner_->entries_[keys_[i]];
  const bool ours = e.maker == heard_, other = parts_[i] != nullptr;
  if (ours || (e.maker == nullptr && (other || e.part.expired()))) e = {part, nullptr, {}};
}

void SharedParts::Claim::alive() const {
  if (heard_ != nullptr) heard_->store(monotonic_ns(), std::memory_order_relaxed);
}

bool SharedParts::must_wait(const Claim& claim, uint64_t patience_ns) const {
  const uint64_t now = monotonic_ns();
  return std::any_of(claim.keys_.begin(), claim.keys_.end(), [&](const std::string& key) {
    const auto e = entries_.find(key);
    if (e == entries_.end() || e->second.maker == nullptr) return false;
    const uint64_t heard = e->second.maker->load(std::memory_order_relaxed);
    return e->second.thread != std::this_thread::get_id() && (heard > now || now - heard < patience_ns);
  });
}

/// False when there is something to wait for; then nothing was taken.
bool SharedParts::take(Claim* claim, uint64_t patience_ns) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (must_wait(*claim, patience_ns)) return false;
  std::erase_if(entries_, [](const auto& e) { return e.second.maker == nullptr && e.second.part.expired(); });
  claim->owner_ = this;
  for (size_t i = 0; i < claim->keys_.size(); ++i) {
    Entry& e = entries_[claim->keys_[i]];
    if (e.maker != nullptr) continue;  // not waited for: its claimant makes his own
    claim->parts_[i] = e.part.lock();
    if (claim->parts_[i] == nullptr) e = {{}, claim->heard_, std::this_thread::get_id()};
  }
  return true;
}

Result<SharedParts::Claim> SharedParts::claim(std::vector<std::string> keys,
                                              const std::function<Status()>& go_on, uint64_t patience_ns) {
  Claim claim;
  claim.parts_.resize(keys.size());
  claim.keys_ = std::move(keys);
  claim.heard_ = std::make_shared<std::atomic<uint64_t>>(monotonic_ns());
  while (!take(&claim, patience_ns)) {
    DPI_RETURN_IF_ERROR(go_on());
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  claim.alive();
  return claim;
}

}  // namespace dpi
