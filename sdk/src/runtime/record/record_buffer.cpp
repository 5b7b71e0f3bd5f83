#include "runtime/record/record_buffer.hpp"

#include <cstring>
#include <new>

namespace dpi {

namespace {

constexpr int kTries = 16;

/// Zeros all over: an entry that begins anywhere is open, and no page is new to a caller.
std::byte* make_bytes() {
  void* const p = std::aligned_alloc(RecordBuffer::kAlign, RecordBuffer::kBytes);
  if (p == nullptr) throw std::bad_alloc();
  std::memset(p, 0, RecordBuffer::kBytes);
  return static_cast<std::byte*>(p);
}

}  // namespace

RecordBuffer::RecordBuffer() : bytes_(make_bytes()) {}

RecordBuffer::Entry* RecordBuffer::reserve(size_t bytes, RecordSource* source) {
  const uint64_t span = sizeof(Entry) + (bytes + kAlign - 1) / kAlign * kAlign;
  uint64_t head = head_.load(std::memory_order_relaxed);
  for (int i = 0; i < kTries; ++i) {
    const uint64_t to_end = kBytes - head % kBytes;
    const uint64_t skipped = span <= to_end ? 0 : to_end;  // an entry lies in one piece
    const auto used = static_cast<int64_t>(head + skipped + span - tail_.load(std::memory_order_acquire));
    if (used > static_cast<int64_t>(kBytes)) return nullptr;
    if (!head_.compare_exchange_weak(head, head + skipped + span, std::memory_order_acq_rel)) continue;
    if (skipped > 0) {
      Entry* const none = at(head);
      none->span_ = skipped;
      none->end(false);
    }
    Entry* const entry = at(head + skipped);
    entry->span_ = span;
    entry->bytes_ = bytes;
    entry->source_ = source;
    return entry;
  }
  return nullptr;
}

RecordBuffer::Entry* RecordBuffer::front() {
  const uint64_t tail = tail_.load(std::memory_order_relaxed);
  if (head_.load(std::memory_order_acquire) == tail) return nullptr;
  Entry* const entry = at(tail);
  return entry->state_.load(std::memory_order_acquire) == Entry::kOpen ? nullptr : entry;
}

void RecordBuffer::pop(Entry* entry) {
  const uint64_t span = entry->span_;
  std::memset(reinterpret_cast<std::byte*>(entry), 0, span);
  tail_.store(tail_.load(std::memory_order_relaxed) + span, std::memory_order_release);
}

}  // namespace dpi
