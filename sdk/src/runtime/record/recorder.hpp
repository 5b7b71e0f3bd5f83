// Records a sampled share of an endpoint's requests, with their scores, to files (weights/RECORD.md). A
// caller whose request is drawn copies it into a ring (record_buffer.hpp) or, where that has no room or the
// second's bytes are used up, counts it as dropped. Other callers read two words that nobody writes
// meanwhile. One thread (dpi-record) writes what lies in the ring.
//
//   endpoint:  recorder->set("record.path", ...);  model.set_tap(recorder->tap(source));
//   call:      if (tap != nullptr && tap->draws(began_ns)) tap->record(batch, out, took_ns);
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/status.hpp"
#include "runtime/record/record_buffer.hpp"
#include "runtime/record/record_file.hpp"
#include "runtime/record/record_source.hpp"
#include "runtime/request/request.hpp"

namespace dpi {

class JsonWriter;
class Recorder;

/// A model's way to its endpoint's recorder.
class RecordTap {
 public:
  RecordTap(std::shared_ptr<Recorder> recorder, std::shared_ptr<RecordSource> source)
      : recorder_(std::move(recorder)), source_(std::move(source)) {}

  /// True of the share of calls that is recorded, by the moment when a call began.
  bool draws(uint64_t ns) const;
  /// batch: checked, of one row or more. out: its scores.
  void record(const Batch& batch, const float* out, uint64_t took_ns) const;

  /// The same in two steps, for a batch that is gone when its scores come. Null: dropped. What begins must
  /// end while the tap lives.
  RecordBuffer::Entry* begin(const Batch& batch) const;
  /// out: null = it has no scores, and is not recorded.
  static void end(RecordBuffer::Entry* entry, const float* out, uint64_t took_ns);

 private:
  const std::shared_ptr<Recorder> recorder_;
  const std::shared_ptr<RecordSource> source_;
};

class Recorder : public std::enable_shared_from_this<Recorder> {
 public:
  struct Settings {
    std::string path;  // "" = nothing is recorded
    double share = 0.01;
    int64_t bytes = int64_t{256} << 20;           // of a file
    int64_t bytes_per_second = int64_t{4} << 20;  // 0 = any
  };
  enum Cause : size_t { kFull, kRate, kLarge, kFailed, kCauses };
  static const char* name_of(size_t cause);
  static bool knows(std::string_view key) { return key.starts_with("record."); }

  /// failed: called by the recorder's thread when writing fails that did not before.
  explicit Recorder(std::function<void(const Status&)> failed) : failed_(std::move(failed)) {}
  ~Recorder() { close(); }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  Status set(std::string_view key, std::string_view value);
  std::unique_ptr<RecordTap> tap(std::shared_ptr<RecordSource> source);
  /// Writes what is in the ring, ends the file and the thread.
  void close();

  struct Counts {
    uint64_t recorded = 0, bytes = 0;
    uint64_t dropped[kCauses] = {};
  };
  Counts counts() const;
  /// False: record.path was never set.
  bool was_on() const { return ring_.load(std::memory_order_acquire) != nullptr; }
  void describe(JsonWriter* w) const;

 private:
  friend class RecordTap;

  Status set_path(const std::string& path);
  void stop();
  void apply_share();
  void work(Settings settings);
  void refill(const Settings& settings, uint64_t now);
  void drain(const Settings& settings);
  void write(const Settings& settings, RecordBuffer::Entry* entry);
  bool fits(const Settings& settings, const RecordSource& source, size_t payload) const;
  Status make_room(const Settings& settings, const RecordSource& source, size_t payload);
  void note(const Status& status);
  void forget_sources();
  void drop(Cause cause) { dropped_[cause].fetch_add(1, std::memory_order_relaxed); }
  uint64_t all_dropped() const;

  const std::function<void(const Status&)> failed_;

  // What every call reads, written by set() only.
  alignas(128) std::atomic<uint64_t> threshold_{0};  // 0 = nothing is drawn
  std::atomic<RecordBuffer*> ring_{nullptr};
  std::atomic<bool> limited_{true};

  // What drawn calls and the thread write.
  alignas(128) std::atomic<int64_t> budget_{0};  // bytes that may still be recorded this second
  std::atomic<uint64_t> dropped_[kCauses] = {};

  alignas(128) std::atomic<uint64_t> recorded_{0};
  std::atomic<uint64_t> written_{0};
  std::unique_ptr<RecordBuffer> owned_ring_;

  std::mutex set_mutex_;      // one set() or close() at a time; before the other
  mutable std::mutex mutex_;  // of the rest but the thread's own
  std::condition_variable wake_;
  Settings settings_;
  bool stop_ = false;
  Status status_;
  std::vector<std::shared_ptr<RecordSource>> sources_;
  std::thread thread_;

  // The thread's own.
  std::unique_ptr<RecordFile> file_;
  uint64_t files_ = 0;
  uint64_t refilled_ns_ = 0, again_ns_ = 0;
};

}  // namespace dpi
