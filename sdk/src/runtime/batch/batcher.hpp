// Merges small requests of many callers into chunks, and runs what was submitted. A lane (lane.hpp) per
// model: an endpoint's batcher has one for each version that it has met, kept beside the model and freed with
// it. Threads (named dpi-batch) lead chunks that nobody leads, and call back.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/batch/lane.hpp"
#include "runtime/batch/shared.hpp"

namespace dpi {

class Batcher {
 public:
  static Result<std::unique_ptr<Batcher>> create(const BatchSettings& settings);
  /// Cancels what waits. No other call may run but those of predict and submit.
  ~Batcher();
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  /// While it lives, the batcher and what a call needs of it stay.
  class Visit {
   public:
    explicit Visit(Batcher& b) : b_(b) {
      open_ = b.inside_.fetch_add(1, std::memory_order_seq_cst) < kClosing;
    }
    ~Visit() { b_.inside_.fetch_sub(1, std::memory_order_seq_cst); }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    Status status() const;

   private:
    Batcher& b_;
    bool open_;
  };
  /// The model stays until the lane's call returns. Allocates at the first call for a model.
  Result<Lane*> lane_of(Model& model);
  void count_call() { count(calls_); }

  bool cancel(uint64_t ticket);
  /// Until there is a completion or the time is over. kClosed: none will come.
  Status wait_done(uint64_t until_ns);
  Tickets& tickets() { return shared_.tickets; }

  using Callback = std::function<void(const Ticket&)>;
  Status set_callback(Callback callback);
  bool has_callback() const { return has_callback_.load(std::memory_order_acquire); }
  /// In the batcher's own callback, which must not wait for the batcher.
  bool in_callback() const { return calling_ == this; }

  Status close(uint64_t deadline_ns);
  std::string status_json();

 private:
  static constexpr uint64_t kClosing = uint64_t{1} << 62;

  explicit Batcher(const BatchSettings& settings) : shared_(settings) {}
  Status start_threads();
  void work();
  bool work_once();
  bool call_back();
  bool all_ended() const;
  void cancel_waiting();
  void drop_lanes();

  static thread_local const Batcher* calling_;

  BatchShared shared_;
  std::vector<std::thread> threads_;
  std::atomic<bool> stop_{false}, has_callback_{false};
  Callback callback_;
  std::mutex callback_mutex_;  // of set_callback

  alignas(128) std::atomic<uint64_t> inside_{0};  // calls; every call writes this line
  std::atomic<uint64_t> calls_{0};
};

}  // namespace dpi
