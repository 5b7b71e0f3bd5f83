// Parts that several models of an environment hold together: one makes a part, the others take references,
// and it goes with the last. The list holds no references itself.
//
// Keys say where to look and are not trusted: whoever takes a part compares it with what it would have made.
//
//   DPI_ASSIGN_OR_RETURN(SharedParts::Claim claim, parts.claim(keys, go_on));
//   claim.part(i)               // another model's, complete; else null: make one
//   claim.publish(i, part);     // others may have it from now on
//
// A claim is taken for all keys at once, and waits, with nothing claimed, while another load makes one of
// them: so loads cannot wait for each other in a circle, and of twenty that start together one reads. When a
// load fails, the next one that waits makes the parts.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/status.hpp"

namespace dpi {

class SharedParts {
 public:
  using Part = std::shared_ptr<void>;

  /// One load's hold on the keys it asked for. When it is destroyed, other loads may make the parts that it
  /// was to make and did not publish.
  class Claim {
   public:
    Claim() = default;  // of nothing
    Claim(Claim&& from) noexcept { swap(from); }
    Claim& operator=(Claim&& from) noexcept {
      swap(from);
      return *this;
    }
    ~Claim();

    const Part& part(size_t i) const { return parts_[i]; }
    /// Publishes a part that this load was to make, or made to replace one that differed from what it needs.
    /// Does nothing for a part that another load makes or has made.
    void publish(size_t i, const Part& part);
    /// Tells those who wait that this load goes on.
    void alive() const;

   private:
    friend class SharedParts;
    void swap(Claim& other) noexcept;

    SharedParts* owner_ = nullptr;
    std::vector<std::string> keys_;
    std::vector<Part> parts_;
    std::shared_ptr<std::atomic<uint64_t>> heard_;  // when, by the monotonic clock
  };

  /// go_on is asked every few milliseconds of waiting; what it says instead of yes ends the claim. Nobody
  /// waits for a load of his own thread (a progress callback that loads another model), nor for one of which
  /// nothing was heard for `patience_ns`: such parts he makes for himself.
  Result<Claim> claim(std::vector<std::string> keys, const std::function<Status()>& go_on,
                      uint64_t patience_ns = kPatienceNs);

  static constexpr uint64_t kPatienceNs = 30'000'000'000;

  /// Around fork(). A child begins with an empty list: parts may lie on a device that is the parent's alone.
  void before_fork() { mutex_.lock(); }
  void after_fork(bool child) {
    if (child) entries_.clear();
    mutex_.unlock();
  }

 private:
  struct Entry {
    std::weak_ptr<void> part;
    std::shared_ptr<std::atomic<uint64_t>> maker;  // heard_ of the claim that makes it; null = nobody does
    std::thread::id thread;                        // the maker's
  };
  bool must_wait(const Claim& claim, uint64_t patience_ns) const;
  bool take(Claim* claim, uint64_t patience_ns);

  std::mutex mutex_;  // of entries_; never held while a part is made or goes
  std::map<std::string, Entry> entries_;
};

}  // namespace dpi
