#include "runtime/batch/lane.hpp"

#include <algorithm>
#include <thread>

#include "runtime/batch/open_word.hpp"
#include "runtime/batch/place.hpp"

namespace dpi {

namespace {

constexpr size_t kBlockAlign = 64;
constexpr int64_t kMostChunks = OpenWord::kNone;

}  // namespace

Lane::Lane(BatchShared& shared, Model& model) : shared_(shared), model_(model), open_(OpenWord{}.word()) {
  const Engine& e = model.engine();
  const BatchSettings& s = shared.settings;
  max_rows_ = std::min({s.max_rows, e.options().max_rows, Context::packed_rows(e, e.options().max_rows)});
  const int64_t contexts = model.contexts();
  const int64_t usual = e.host_memory() ? contexts : static_cast<int64_t>(model.engines().size());
  most_running_ = static_cast<uint32_t>(
      std::min({s.running > 0 ? s.running : usual, contexts, BatchSettings::kMostRunning}));
  count_ = static_cast<uint32_t>(std::min(s.queue + 2 * int64_t{most_running_} + 2, kMostChunks));
}

Result<std::unique_ptr<Lane>> Lane::create(BatchShared& shared, Model& model) {
  std::unique_ptr<Lane> lane(new Lane(shared, model));
  const Engine& e = model.engine();
  DPI_ASSIGN_OR_RETURN(lane->map_, make_input_map(e.schema(), lane->max_rows_, e.options().max_nnz));
  DPI_RETURN_IF_ERROR(lane->make_chunks());
  return lane;
}

Status Lane::make_chunks() {
  const Engine& e = model_.engine();
  const auto rows = static_cast<size_t>(max_rows_);
  const auto scores = rows * static_cast<size_t>(e.heads());
  const auto bytes = (static_cast<size_t>(map_.bytes) + 2 * kBlockAlign) / kBlockAlign * kBlockAlign;
  chunks_ = std::make_unique<Chunk[]>(count_);
  for (uint32_t i = 0; i < count_; ++i) {
    Chunk& c = chunks_[i];
    c.block.reset(static_cast<std::byte*>(std::aligned_alloc(kBlockAlign, bytes)));
    if (c.block == nullptr)
      return {Code::kOutOfMemory, "no memory for " + std::to_string(count_) + " chunks of a batcher, of " +
                                      std::to_string(bytes) +
                                      " bytes each; option batch.max_rows or batch.queue takes less"};
    c.rows.map = &map_;
    c.rows.block = c.block.get();
    c.requests.resize(rows);
    c.counters.resize(e.schema().features.size());
    c.out.resize(scores);
    c.logits.resize(scores);
    if (model_.slow() != nullptr) c.ids.resize(rows * model_.slow()->features());
    bytes_ += sizeof c + bytes + c.requests.size() * sizeof(Member) +
              c.counters.size() * sizeof(FeatureCounters) + 2 * scores * sizeof(float) +
              c.ids.size() * sizeof(int64_t);
  }
  all_free_ = (uint64_t{1} << count_) - 1;
  free_.store(all_free_, std::memory_order_relaxed);
  return {};
}

void Lane::wake_all() {
  head_.wake();
  places_.wake();
  for (uint32_t i = 0; i < count_; ++i) {
    chunks_[i].ended.wake();
    chunks_[i].members.wake();
  }
}

/// Nobody joins any more. Looking is enough: versions are replaced seldom, and chunks take milliseconds.
void Lane::drain() {
  while (!idle()) std::this_thread::sleep_for(std::chrono::microseconds(50));
}

void Lane::model_closed() {
  const std::unique_ptr<Lane> self(this);
  const std::lock_guard<std::mutex> lock(shared_.lanes_mutex);  // the batcher waits for the list to be empty
  shared_.lanes.remove(this);
}

}  // namespace dpi
