// The callers' side of recording: a draw, and a copy into the ring.
#include <algorithm>
#include <cstring>

#include "base/clock.hpp"
#include "runtime/record/record_layout.hpp"
#include "runtime/record/recorder.hpp"

namespace dpi {

using namespace record_layout;

namespace {

/// The finalizer of splitmix64: moments that are near give numbers that are not.
uint64_t mixed(uint64_t v) {
  v = (v ^ (v >> 30)) * 0xBF58476D1CE4E5B9u;
  v = (v ^ (v >> 27)) * 0x94D049BB133111EBu;
  return v ^ (v >> 31);
}

/// Counts elements of a checked part. Pointers that nobody reads may be anything.
struct Held {
  size_t ids = 0, offsets = 0, weights = 0, dense = 0;  // elements

  Held(const BatchPart& p, const RecordPart& shape) {
    if (p.rows <= 0) return;
    const auto rows = static_cast<size_t>(p.rows);
    dense = rows * shape.columns;
    if (shape.slots == 0) return;
    ids = static_cast<size_t>(p.nnz);
    offsets = p.offsets != nullptr ? rows * shape.slots + 1 : 0;
    weights = p.weights != nullptr ? ids : 0;
  }
  size_t bytes() const {
    return 8 * (ids + offsets) + array_bytes(sizeof(float) * weights) + array_bytes(sizeof(float) * dense);
  }
};

class Copier {
 public:
  explicit Copier(std::byte* to) : to_(to) {}
  template <class T>
  void array(const T* from, size_t n) {
    if (n == 0) return;
    std::memcpy(to_, from, n * sizeof(T));
    to_ += array_bytes(n * sizeof(T));
  }
  void dense(const BatchPart& p, size_t columns) {
    const auto stride = p.dense_stride != 0 ? static_cast<size_t>(p.dense_stride) : columns;
    const auto rows = static_cast<size_t>(p.rows);
    if (stride == columns) return array(p.dense, rows * columns);
    for (size_t r = 0; r < rows; ++r)
      std::memcpy(to_ + r * columns * sizeof(float), p.dense + r * stride, columns * sizeof(float));
    to_ += array_bytes(rows * columns * sizeof(float));
  }
  void part(const BatchPart& p, const RecordPart& shape, const Held& held) {
    array(p.ids, held.ids);
    array(p.offsets, held.offsets);
    array(p.weights, held.weights);
    if (held.dense > 0) dense(p, shape.columns);
  }

 private:
  std::byte* to_;
};

size_t score_bytes(const RequestHead& head) {
  return static_cast<size_t>(head.rows) * head.heads * sizeof(float);
}

}  // namespace

bool RecordTap::draws(uint64_t ns) const {
  const uint64_t threshold = recorder_->threshold_.load(std::memory_order_acquire);
  return threshold != 0 && mixed(ns) <= threshold;
}

RecordBuffer::Entry* RecordTap::begin(const Batch& b) const {
  const bool shared = b.has_shared();
  const RecordPart& item_shape = shared ? source_->item : source_->whole;
  const Held item(b.item, item_shape), users(shared ? b.shared : BatchPart(), source_->shared);
  const size_t shared_offsets = shared ? static_cast<size_t>(b.shared.rows) + 1 : 0;
  RequestHead head{};
  head.flags = (shared ? kShared : 0u) | (b.slot_major ? kSlotMajor : 0u) | (item.offsets ? kOffsets : 0u) |
               (item.weights ? kWeights : 0u) | (users.offsets ? kSharedOffsets : 0u) |
               (users.weights ? kSharedWeights : 0u);
  head.rows = b.item.rows;
  head.nnz = static_cast<int64_t>(item.ids);
  head.shared_rows = shared ? b.shared.rows : 0;
  head.shared_nnz = static_cast<int64_t>(users.ids);
  head.slots = item_shape.slots;
  head.columns = item_shape.columns;
  head.shared_slots = shared ? source_->shared.slots : 0;
  head.shared_columns = shared ? source_->shared.columns : 0;
  head.heads = source_->heads;
  const size_t bytes =
      sizeof head + item.bytes() + users.bytes() + 8 * shared_offsets + array_bytes(score_bytes(head));
  Recorder& r = *recorder_;
  if (bytes > RecordBuffer::kMostPayload) return r.drop(Recorder::kLarge), nullptr;
  if (r.limited_.load(std::memory_order_relaxed) && r.budget_.load(std::memory_order_relaxed) <= 0)
    return r.drop(Recorder::kRate), nullptr;
  RecordBuffer::Entry* const entry = r.ring_.load(std::memory_order_acquire)->reserve(bytes, source_.get());
  if (entry == nullptr) return r.drop(Recorder::kFull), nullptr;
  if (r.limited_.load(std::memory_order_relaxed))
    r.budget_.fetch_sub(static_cast<int64_t>(bytes + sizeof(FrameHead)), std::memory_order_relaxed);
  std::memcpy(entry->payload(), &head, sizeof head);
  Copier to(entry->payload() + sizeof head);
  to.part(b.item, item_shape, item);
  if (shared) to.part(b.shared, source_->shared, users);
  to.array(b.shared_offsets, shared_offsets);
  return entry;
}

void RecordTap::end(RecordBuffer::Entry* entry, const float* out, uint64_t took_ns) {
  if (entry == nullptr) return;
  if (out != nullptr) {
    RequestHead head{};
    std::memcpy(&head, entry->payload(), sizeof head);
    head.ended_ms = wall_clock_ms();
    head.took_ns = took_ns;
    std::memcpy(entry->payload(), &head, sizeof head);
    const size_t scores = score_bytes(head);
    std::memcpy(entry->payload() + entry->bytes() - array_bytes(scores), out, scores);
  }
  entry->end(out != nullptr);
}

void RecordTap::record(const Batch& batch, const float* out, uint64_t took_ns) const {
  end(begin(batch), out, took_ns);
}

}  // namespace dpi
