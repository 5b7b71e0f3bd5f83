// A named place that always answers with its current version. The next one is built beside it, by whoever
// loads, and becomes visible by one store of a pointer; callers find it there behind a gate (base/gate.hpp)
// and hold a context of its model from then on, so the old version's end needs no count of calls:
//
//   pass the gate, read current(), claim a context, leave the gate, score          (capi/src/endpoint.cpp)
//   store the next pointer;  gate.drain();  free the old model, which waits for its contexts     (retire())
//
// Locks: load_mutex_ lets loads in one by one and is held for all of one; state_mutex_ is held for moments,
// never while a model is read, drained or freed. So a rollback does not wait for a load, and a caller for
// nothing. One thread (named dpi-endpoint) follows a folder, hashes what
// serves and frees the version that was kept long enough.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/gate.hpp"
#include "runtime/endpoint/counts.hpp"
#include "runtime/endpoint/followed_folder.hpp"
#include "runtime/endpoint/history.hpp"
#include "runtime/endpoint/settings.hpp"
#include "runtime/endpoint/update.hpp"
#include "runtime/endpoint/version.hpp"
#include "runtime/record/recorder.hpp"

namespace dpi {

namespace stream {
class Subscription;
}

class Endpoint final : public Observed {
 public:
  /// Makes a version that owns `model`.
  using Wrap = std::function<std::unique_ptr<Version>(std::unique_ptr<Model> model)>;
  /// `options` are those of every model; what watches a load in them is not used. kInvalidArgument for a name
  /// that the environment has already.
  static Result<std::unique_ptr<Endpoint>> create(const std::string& name, const ModelOptions& options,
                                                  Wrap wrap);
  /// Stops a load, joins the thread, waits for calls. Not in a forked child.
  ~Endpoint() override;
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  Status set(std::string_view key, std::string_view value);
  /// Builds the version beside the running one and switches; of a delta that it has had, nothing. What fails
  /// is told by the status too. fault: where a delta of the update is to blame its place among them.
  Status load(const Update& update, size_t* fault = nullptr);
  Status rollback();
  /// From now on the newest bundle of `folder` is loaded, soon after it comes there. Ends a subscription.
  Status follow(const std::string& folder);
  /// A load that has begun is finished. Ends a subscription.
  void unfollow();
  /// Follows `folder`, and brings deltas there from a stream (runtime/stream/subscription.hpp).
  Status subscribe(const std::string& url, const std::string& folder);
  /// The folder is followed on.
  void unsubscribe();
  /// Until a version of this number or a higher one serves; deadline_ns 0 = no deadline.
  Status wait(uint64_t number, uint64_t deadline_ns);
  std::string status_json() const;
  /// Calls over option slow_us, over all versions: a JSON list.
  std::string slow_json() const;
  void write_metrics(const std::string& label, MetricsPage* page) const override;

  // For calls.
  Gate& gate() const { return *gate_; }
  /// Inside the gate; stays until it is left. Null: nothing was loaded yet.
  const Version* current() const { return current_.load(std::memory_order_seq_cst); }
  /// Number of the current version, 0 = none.
  uint64_t number() const { return number_.load(std::memory_order_acquire); }
  bool forked() const;
  Status check_process() const;
  Status nothing_loaded() const;

 private:
  struct Message {
    LogLevel level;
    std::string text;
  };

  Endpoint(std::string name, const ModelOptions& options, Wrap wrap);

  // load.cpp, messages.cpp
  struct Running;
  struct Turn;
  bool is_loader() const;
  /// True in a log callback that hears of this endpoint: joining a thread, or waiting for a load's turn,
  /// would wait for itself there.
  bool in_callback() const { return telling_ == this || is_loader(); }
  struct Beside;
  Beside beside() const;
  Result<NextOrigin> open(const Update& update, const Beside& there, size_t* fault);
  Result<std::unique_ptr<Version>> build(const Update& update, size_t* fault);
  Result<std::unique_ptr<Model>> build_beside(const Update& update, const NextOrigin& next,
                                              const Beside& there);
  Result<uint64_t> choose_number(const Update& update) const;
  ModelOptions options_beside() const;
  void publish(std::unique_ptr<Version> next, uint64_t began_ns);
  void retire(std::unique_ptr<Version> old) const;
  void merge_rows() const noexcept;
  std::unique_ptr<Version> take_kept();
  Status drop_kept_for_room();
  uint64_t forecast_bytes() const;
  uint64_t held_bytes() const {
    const std::lock_guard<std::mutex> lock(state_mutex_);
    return forecast_bytes();
  }
  void note_failure(const Update& update, const Status& status, uint64_t began_ns) noexcept;
  void note_event(EndpointEvent::Kind kind, const std::string& path, uint64_t number, uint64_t from,
                  double seconds, const Status& why) noexcept;
  void note_recording(const Status& failed) noexcept;
  void write_messages() noexcept;
  /// Without memory for its text a message is not told: what it tells of has happened.
  template <class Text>
  void tell(LogLevel level, Text&& text) const noexcept {
    const Endpoint* const outer = std::exchange(telling_, this);
    try {
      options_.environment->log().write(level, "endpoint", name_ + ": " + text());
    } catch (const std::bad_alloc&) {
      telling_ = outer;  // it goes untold
      return;
    }
    telling_ = outer;
  }
  bool stopping() const { return __atomic_load_n(&stop_, __ATOMIC_ACQUIRE) != 0; }

  // follow.cpp
  void work();
  uint64_t next_due() const;
  void expire();
  void hash_leaf();
  void poll();
  void note_folder(const Status& status);
  void note_out_of_memory();
  std::vector<bool> usable() const;
  std::optional<ContentHash> serving_content() const;
  bool wants(const std::string& folder, const FoundUpdate& found) const;
  const FoundUpdate* to_blame(const FoundUpdate* target, const Update& update, size_t fault) const;
  void note_refused(const FoundUpdate& found, const Status& why);
  void note_gaps(std::vector<FollowedFolder::Refused> gaps);
  void note_passed(const std::string& folder);
  std::string why_passed(size_t i) const;
  Status follow_folder(const std::string& folder);

  // subscribe.cpp
  struct StreamFollower;
  void set_subscription(std::unique_ptr<stream::Subscription> next);
  std::string stream_json() const;

  static thread_local const Endpoint* telling_;  // whose message this thread is writing

  const std::string name_;
  ModelOptions options_;
  const Wrap wrap_;
  uint64_t fork_generation_ = 0;
  bool named_ = false;  // the environment has the name
  std::unique_ptr<Gate> gate_;

  // What calls read; written by a switch only.
  alignas(128) std::atomic<const Version*> current_{nullptr};
  std::atomic<uint64_t> number_{0};

  alignas(128) std::mutex load_mutex_;
  int32_t stop_ = 0;  // read atomically, by a load as its cancel flag too
  std::atomic<const char*> stage_{nullptr};
  std::atomic<uint64_t> stage_done_{0}, stage_total_{0};

  mutable std::mutex state_mutex_;  // of the rest
  std::condition_variable changed_;
  EndpointSettings settings_;
  std::unique_ptr<Version> serving_, kept_;
  uint64_t kept_until_ns_ = 0;
  uint64_t hash_at_ns_ = 0;  // the next leaf of what serves; UINT64_MAX: all are made
  uint64_t highest_ = 0;     // number that ever served
  uint64_t loads_ = 0, failed_loads_ = 0, rollbacks_ = 0;
  uint64_t failures_[CounterSums::kCodes] = {};  // of failed_loads_, by code
  std::string loading_;                          // path of a load that is under way
  std::thread::id loader_;
  int32_t running_ = 0;  // calls of load()
  EndpointEvent last_;   // load, whoever asked for it
  EndpointHistory history_;
  std::deque<Message> messages_;    // of what happened, in that order, for the log
  bool writing_messages_ = false;   // a thread writes them
  bool recording_fails_ = false;    // a message of the recorder waits for the endpoint's thread
  std::set<uint64_t> rolled_back_;  // numbers
  const std::shared_ptr<HeldBytes> held_ = std::make_shared<HeldBytes>();  // by models of all versions
  const std::shared_ptr<EndpointCounts> counts_ = std::make_shared<EndpointCounts>();
  FollowedFolder folder_;
  UpdateChooser chooser_;  // the thread's own
  const std::shared_ptr<Recorder> recorder_ =
      std::make_shared<Recorder>([this](const Status& failed) { note_recording(failed); });
  std::thread thread_;

  std::mutex subscribe_mutex_;       // held while a subscription comes or goes; before all others
  mutable std::mutex stream_mutex_;  // of the pointer, for moments; never with state_mutex_ held
  std::unique_ptr<stream::Subscription> subscription_;
};

}  // namespace dpi
