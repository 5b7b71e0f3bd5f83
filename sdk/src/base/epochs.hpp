// When may a place that readers look at without a lock be used again, or what they found be freed? Each
// reader has a cache line of its own with the epoch it entered (0 = idle). A writer unlinks a place, then
// bumps the epoch; the place may be given out again once no reader is in the epoch before the bump or an
// older one. Readers write nothing but their line.
//
//   reader:  epochs.enter(line);  place = directory.find(key);  ... read the row ...;  epochs.leave(line);
//   writer:  directory.erase(key);  tag = epochs.bump();  ...  if (tag < epochs.oldest()) reuse the place;
//
// Why that is enough. enter() stores the line, then loads the epoch; bump() adds to the epoch, then oldest()
// loads the line; all four are sequentially consistent, so one of the two loads comes after the other side's
// write. Either oldest() sees the reader, and waits for it; or enter() reads the bumped epoch and so sees
// everything unlinked before the bump. The epoch that a line shows may be older than the one read last: that
// holds places back longer, never shorter. leave() is a release that oldest() acquires: the reader's last
// look at a row happens before the writer's first byte of the next one. try_enter() is the same with a line
// that whoever comes claims (base/gate.hpp): its exchange stands for the store.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "base/sync.hpp"

namespace dpi {

template <class Sync>
class EpochsT {
 public:
  static constexpr int32_t kLinesPerChunk = Sync::kLinesPerChunk;
  static constexpr int32_t kMaxChunks = 128;
  static constexpr int32_t kMaxReaders = kLinesPerChunk * kMaxChunks;

  /// A reader's own; at most one call is between enter and leave.
  struct alignas(64) Line {
    uint64_t epoch = 0;
  };

  /// Off the path of calls. kOutOfMemory beyond kMaxReaders; throws bad_alloc.
  Result<Line*> add_reader() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (spare_.empty()) DPI_RETURN_IF_ERROR(add_chunk());
    Line* line = spare_.back();
    spare_.pop_back();
    return line;
  }
  /// The reader must be idle.
  void remove_reader(Line* line) {
    const std::lock_guard<std::mutex> lock(mutex_);
    spare_.push_back(line);  // has room: see add_chunk
  }

  void enter(Line& line) const {
    Sync::store(line.epoch, Sync::load(now_, std::memory_order_relaxed), std::memory_order_seq_cst);
    static_cast<void>(Sync::load(now_, std::memory_order_seq_cst));  // for its order: see above
  }
  /// For a line that is nobody's own: false, and nothing is entered, while another call is inside on it.
  bool try_enter(Line& line) const {
    if (Sync::load(line.epoch, std::memory_order_relaxed) != 0) return false;
    const uint64_t now = Sync::load(now_, std::memory_order_relaxed);
    if (!Sync::replace(line.epoch, uint64_t{0}, now, std::memory_order_seq_cst)) return false;
    static_cast<void>(Sync::load(now_, std::memory_order_seq_cst));  // for its order: see above
    return true;
  }
  void leave(Line& line) const { Sync::store(line.epoch, uint64_t{0}, std::memory_order_release); }

  /// Ends an epoch. What was unlinked before may be in use by readers in the epoch returned or an older one.
  uint64_t bump() { return Sync::fetch_add(now_, uint64_t{1}, std::memory_order_seq_cst); }
  /// The oldest epoch a reader is in, UINT64_MAX when all are idle. To be asked after the bump.
  uint64_t oldest() const {
    uint64_t least = UINT64_MAX;
    const int32_t chunks = Sync::load(n_chunks_, std::memory_order_seq_cst);
    for (int32_t c = 0; c < chunks; ++c) {
      for (const Line& line : *chunks_[static_cast<size_t>(c)]) {
        const uint64_t epoch = Sync::load(line.epoch, std::memory_order_seq_cst);
        if (epoch != 0 && epoch < least) least = epoch;
      }
    }
    return least;
  }

 private:
  using Chunk = std::array<Line, kLinesPerChunk>;

  Status add_chunk() {
    if (n_chunks_ == kMaxChunks)
      return {Code::kOutOfMemory, "more than " + std::to_string(kMaxReaders) + " contexts of one store"};
    auto chunk = std::make_unique<Chunk>();
    spare_.reserve(static_cast<size_t>(n_chunks_ + 1) * chunk->size());
    for (Line& line : *chunk) spare_.push_back(&line);
    chunks_[static_cast<size_t>(n_chunks_)] = std::move(chunk);
    // Sequentially consistent: a reader of this chunk that enters before a bump is seen by the scan after it.
    Sync::store(n_chunks_, Sync::own(n_chunks_) + 1, std::memory_order_seq_cst);
    return {};
  }

  alignas(64) uint64_t now_ = 1;  // written by bump only: readers share the line
  int32_t n_chunks_ = 0;
  std::array<std::unique_ptr<Chunk>, kMaxChunks> chunks_{};
  std::mutex mutex_;  // of who has which line
  std::vector<Line*> spare_;
};

}  // namespace dpi
