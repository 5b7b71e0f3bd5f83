// Requests of one model on their way through a batcher. A request that finds a place and nobody waiting runs
// at once, unless the chunk before was shared: then more callers may be ready than there are processors, and
// the next chunk lets them join before it runs. Others share a chunk: each joins by one exchange of a word,
// is packed behind those that joined before, and waits. Who opened the chunk leads it: waits until all chunks
// before have a context, takes a place and a context, closes the chunk, runs it and wakes the others. A chunk
// that a submitted request opened, or whose leader gave up, is led by a thread of the batcher.
//
//   open_    the open chunk, its members, rows, shared rows, and the number of the chunk opened last
//   head_    the number of the chunk that may take a context now: in this order, so nobody is overtaken
//   places_  chunks and single requests that run
//   free_    chunks that nobody uses
//
// A chunk goes back when its members and its runner have left it; until then the lane and its model stay.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/gate.hpp"
#include "runtime/batch/chunk.hpp"
#include "runtime/batch/shared.hpp"
#include "runtime/model/model.hpp"

namespace dpi {

/// A caller's request, checked for size and version by capi.
struct BatchRequest {
  Batch batch;
  float* out = nullptr;  // [rows, heads]
  RunControl control;
  Gate::Pass* pass = nullptr;  // left once the request has a context or a chunk: the model stays for that
};

class Lane final : public Model::Attachment {
 public:
  static Result<std::unique_ptr<Lane>> create(BatchShared& shared, Model& model);

  Status predict(const BatchRequest& request);
  Status submit(const BatchRequest& request, uint64_t user, uint64_t* ticket);

  // By a thread of the batcher.
  void lead_left(uint32_t chunk);
  void run_singles(uint32_t chunk);

  const Model& model() const { return model_; }
  int64_t max_rows() const { return max_rows_; }
  uint64_t bytes() const { return bytes_; }
  uint32_t running() const { return most_running_; }
  bool idle() const { return free_.load(std::memory_order_seq_cst) == all_free_; }
  /// False: the model closes, and the lane goes with it.
  bool detach_from(const void* key) { return model_.detach(key); }
  /// After `abort` was set.
  void wake_all();

  void drain() override;
  void model_closed() override;

 private:
  struct Seat {
    Chunk* chunk = nullptr;
    uint32_t member = 0;
    bool leads = false;
  };
  enum class Room { kPacked, kNone };
  class Place;

  Lane(BatchShared& shared, Model& model);
  Status make_chunks();
  uint32_t index_of(const Chunk& c) const { return static_cast<uint32_t>(&c - chunks_.get()); }

  // join.cpp
  bool fits_alone(const Batch& batch) const;
  Status check_on_time(const RunControl& control);
  Status take_seat(const Batch& batch, Seat* seat);
  Status open_chunk(uint64_t word, uint64_t joins, Seat* seat, bool* taken);
  Chunk* take_free();
  void close_to(Chunk& c, uint64_t word);
  void leave(Chunk& c, uint32_t holds = 1);
  Result<Room> pack(const Seat& seat, const BatchRequest& request, Ticket* ticket, uint64_t* number);
  Result<Room> pack_here(Chunk& c, Member* m, const BatchRequest& request);
  Result<Seat> sit(const BatchRequest& request, Ticket* ticket, uint64_t* number);
  void leave_open(Chunk& c);
  Status run_alone(const BatchRequest& request);
  Status run_here(ContextPool::Lease& lease, const BatchRequest& request);
  Status wait_for_scores(const Seat& seat, const BatchRequest& request);
  Status collect(const Seat& seat, const BatchRequest& request);
  void record(const Chunk& c, const Member& m, const BatchRequest& request) const;
  void give_scores(const Chunk& c, const Member& m, float* out, float* logits, uint64_t* version) const;

  // run.cpp
  Status lead(Chunk& c, const RunControl& control, const int32_t* abort);
  Status wait_for_others(Chunk& c, const RunControl& control, const int32_t* abort);
  void advance(uint32_t number);
  uint32_t members_in(const Chunk& c) const;
  void let_others_join(const Chunk& c);
  uint32_t seal(Chunk& c);
  void run(Chunk& c, std::optional<ContextPool::Lease> lease, std::optional<Place> place);
  Status run_rows(Chunk& c, ContextPool::Lease& lease);
  void judge(Chunk& c, uint32_t members, ContextPool::Lease& lease);
  int64_t* ids_of(Chunk& c, const Member& m) const {
    return &c.ids[static_cast<size_t>(&m - c.requests.data()) * model_.slow()->features()];
  }
  void keep_slow(Chunk& c, const Member& m, SlowCalls::Call call) const;
  void end_late(const Chunk& c, uint32_t members);
  bool deliver(Chunk& c, uint32_t members);
  void end(const Chunk& c, const Member& m, Status status, uint64_t run_ns);
  static void end_record(const Chunk& c, Member& m, const float* out, uint64_t run_ns);
  Status run_single(Chunk& c, const Member& m, float* out, float* logits);

  BatchShared& shared_;
  Model& model_;
  int64_t max_rows_ = 0;
  uint32_t most_running_ = 1;
  uint32_t count_ = 0;
  uint64_t bytes_ = 0;  // of the chunks
  uint64_t all_free_ = 0;
  InputMap map_;
  std::unique_ptr<Chunk[]> chunks_;

  alignas(128) std::atomic<uint64_t> open_;
  WaitWord head_{1};
  WaitWord places_{0};
  std::atomic<uint64_t> free_{0};
  std::atomic<bool> crowded_{false};          // the last chunk had several requests
  std::atomic<uint64_t> stays_until_{0};      // let_others_join() does nothing until then
  std::atomic<uint32_t> by_number_[64] = {};  // chunk of a number, of the last 64 numbers
};

static_assert(alignof(Lane) == BatchShared::kLaneAlign);

}  // namespace dpi
