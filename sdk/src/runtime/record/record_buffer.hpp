// A ring of bytes between callers who record requests and the one thread that writes them to a file. A caller
// takes room by one exchange and fills it; where there is none, or too many come at once, it gets none and
// goes on. All memory is taken when the ring is made.
//
//   caller:  Entry* e = ring.reserve(bytes);  ... fill e->payload() ...;  e->end(true);
//   thread:  while (Entry* e = ring.front()) { ... write it, unless it was given up ...; ring.pop(e); }
//
// The thread takes entries in the order of their places, so one that is still being filled holds back those
// behind it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace dpi {

struct RecordSource;

class RecordBuffer {
 public:
  static constexpr size_t kBytes = size_t{8} << 20;
  static constexpr size_t kAlign = 64;
  /// The most bytes of an entry: another one has room beside it.
  static constexpr size_t kMostPayload = (size_t{4} << 20) - kAlign;

  class alignas(kAlign) Entry {
   public:
    std::byte* payload() { return reinterpret_cast<std::byte*>(this + 1); }
    size_t bytes() const { return bytes_; }
    RecordSource* source() const { return source_; }
    bool is_kept() const { return state_.load(std::memory_order_acquire) == kKept; }
    /// By the caller, once: its bytes are whole, or it is given up.
    void end(bool keep) { state_.store(keep ? kKept : kGivenUp, std::memory_order_release); }

   private:
    friend class RecordBuffer;
    enum State : uint32_t { kOpen, kKept, kGivenUp };
    std::atomic<uint32_t> state_{kOpen};
    uint64_t span_ = 0;  // with this head
    size_t bytes_ = 0;
    RecordSource* source_ = nullptr;
  };

  /// Throws bad_alloc.
  RecordBuffer();
  RecordBuffer(const RecordBuffer&) = delete;
  RecordBuffer& operator=(const RecordBuffer&) = delete;

  /// Null: no room, or others were quicker again and again. bytes: at most kMostPayload.
  Entry* reserve(size_t bytes, RecordSource* source);

  /// By the thread. Null: nothing is there, or the next one is still being filled.
  Entry* front();
  void pop(Entry* entry);
  /// Every entry that a caller has taken was popped.
  bool is_empty() const {
    return head_.load(std::memory_order_acquire) == tail_.load(std::memory_order_acquire);
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  Entry* at(uint64_t place) { return reinterpret_cast<Entry*>(bytes_.get() + place % kBytes); }

  const std::unique_ptr<std::byte, Free> bytes_;
  alignas(128) std::atomic<uint64_t> head_{0};  // places only grow
  alignas(128) std::atomic<uint64_t> tail_{0};
};

}  // namespace dpi
