// A thread (named dpi-stream) that takes deltas from a stream, one after the other:
//
//   a message -> is it a delta, whole and sound? -> does it start from what the folder ends with?
//   -> into the folder, as the next number -> the endpoint serves it -> its offset is committed
//
// The hashes in deltas and bundles decide; offsets only say where to begin reading. So:
//   not a delta           passed over, counted, told. Had it been one, the next delta starts elsewhere
//   in the chain already  passed over, counted: a message comes again after a restart
//   starts elsewhere      a gap. Nothing is committed; the stream is read from its oldest message on for a
//                         delta that does start there. Found: the gap was old messages. Not found: it waits,
//                         for such a delta, or for a whole bundle in the folder, after which it looks again
//   too long, newer format, refused by the endpoint and then overtaken by a bundle: held like a gap
//   refused by the endpoint   it waits, until the endpoint takes it or a whole bundle overtakes it
// A delta whose bundle is overtaken by one that serves is removed (Spool::drop_below).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/status.hpp"
#include "runtime/stream/abi/dpi_stream.h"
#include "runtime/stream/follower.hpp"
#include "runtime/stream/part_joiner.hpp"
#include "runtime/stream/spool.hpp"
#include "runtime/stream/stream_url.hpp"

namespace dpi::stream {

struct SubscriptionOptions {
  StreamUrl url;
  std::string folder;
  std::string require_signature;  // as in BundleOptions
};

class Subscription {
 public:
  /// Opens folder and stream, and starts. `follower` outlives it.
  static Result<std::unique_ptr<Subscription>> start(const dpi_stream_api& api, SubscriptionOptions options,
                                                     std::unique_ptr<Follower> follower);
  /// Ends soon: it waits for no broker and no endpoint. A delta that is in the folder stays, its offset may
  /// not be committed yet.
  ~Subscription();
  Subscription(const Subscription&) = delete;
  Subscription& operator=(const Subscription&) = delete;

  const std::string& folder() const { return options_.folder; }
  std::string status_json() const;

 private:
  struct Close {
    const dpi_stream_api* api;
    void operator()(dpi_stream_handle* h) const { api->close(h); }
  };
  /// A delta of ours in the folder that does not serve yet.
  struct Pending {
    ContentHash version{};
    int64_t offset = 0, next_offset = 0, timestamp_ms = -1;
    Status refusal;  // of the endpoint, as last seen
  };
  /// Messages that cannot be applied now, and must not be forgotten.
  struct Gap {
    int64_t offset = 0, timestamp_ms = -1;  // of the first
    std::string why;
    int64_t messages = 0;
    bool told = false;  // the end was reached
  };
  /// Fields of the status; written by the thread, with mutex_.
  struct Seen {
    const char* state = "starting";
    Status error;
    uint64_t waits_for = 0;
    int64_t next_offset = -1;  // messages below are done
    int64_t oldest_ms = -1;    // timestamp of the oldest that is read and not done
    int64_t served_ms = -1;    // of the version that serves
    int64_t versions_behind = 0;
    int64_t applied = 0, duplicates = 0, skipped = 0, passed_over = 0, removed = 0;
    std::optional<Gap> gap;
    int64_t skipped_offset = -1;
    Status skipped_why;
  };

  Subscription(const dpi_stream_api& api, SubscriptionOptions options, std::unique_ptr<Follower> follower);
  Status open();
  void work();

  // subscription.cpp, in the order of a round
  void round();
  bool settled(const std::vector<const SpoolFile*>& chain);
  bool settle(const std::vector<const SpoolFile*>& chain);
  Status fetch();
  void at_end(int64_t offset);

  // judge.cpp: what becomes of a message
  void judge(const std::vector<const SpoolFile*>& chain);
  void append(const Delta& delta, const SpoolFile& tail);
  void pass_duplicate(bool is_tail);
  void skip(int64_t offset, const Status& why);
  void hold(int64_t offset, int64_t timestamp_ms, std::string why);
  void close_gap();
  void done_below(int64_t next_offset);

  void search(const ContentHash& base);
  void say(const char* state, const Status& error = {}, uint64_t waits_for = 0);
  void look_round(const std::vector<const SpoolFile*>& chain);
  void trouble(const Status& why);
  void pause(int64_t ms);
  bool stopping() const { return stop_.load(std::memory_order_acquire); }

  const dpi_stream_api& api_;
  const SubscriptionOptions options_;
  const std::unique_ptr<Follower> follower_;
  std::unique_ptr<Spool> spool_;
  std::unique_ptr<dpi_stream_handle, Close> handle_;

  // Of the thread alone.
  PartJoiner joiner_;
  std::optional<Incoming> incoming_;  // read, not judged yet
  std::optional<Pending> pending_;
  std::optional<Gap> gap_;
  ContentHash searched_for_{};  // the stream was read from its beginning for a delta that starts here
  int64_t errors_ = 0;          // one after the other

  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;  // of seen_, and of pauses
  std::condition_variable stopped_;
  Seen seen_;
  std::thread thread_;
};

}  // namespace dpi::stream
