// State that the lanes of a batcher share: settings, tickets, work for its threads, counts.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>

#include "base/spin.hpp"
#include "runtime/batch/index_queue.hpp"
#include "runtime/batch/settings.hpp"
#include "runtime/batch/tickets.hpp"
#include "runtime/batch/wait_word.hpp"

namespace dpi {

class Lane;

struct BatchShared {
  explicit BatchShared(const BatchSettings& s)
      : settings(s), tickets(static_cast<size_t>((s.queue + 2) * s.max_rows)), leads(kMostLeads) {}

  /// A chunk for a thread of the batcher, which a lane keeps until then.
  void leave_to_threads(const Lane* lane, uint32_t chunk, bool singles) {
    const uint64_t item = reinterpret_cast<uint64_t>(lane) | chunk | (singles ? kSingles : 0);
    while (!leads.push(item)) pause_looking();
    work.add(1);
  }
  static constexpr size_t kMostLeads = 1024;
  static constexpr uint64_t kSingles = 64, kLaneAlign = 128;  // a lane's address leaves room for both

  const BatchSettings settings;
  Tickets tickets;
  IndexQueue leads;
  WaitWord work;
  int32_t abort = 0;  // read atomically: what waits is cancelled

  std::mutex lanes_mutex;  // when lanes come and go
  std::list<Lane*> lanes;

  /// Time of a chunk as measured last.
  std::atomic<uint64_t> service_ns{0}, measured_ns{0};
  uint64_t expected_ns(uint64_t now) const {
    constexpr uint64_t kValidNs = 100'000'000;
    const uint64_t at = measured_ns.load(std::memory_order_relaxed);
    return at + kValidNs > now ? service_ns.load(std::memory_order_relaxed) : 0;
  }

  // counts; calls are on the line that every call writes (batcher.hpp)
  alignas(128) std::atomic<uint64_t> chunks{0};
  std::atomic<uint64_t> chunk_requests{0}, chunk_rows{0}, largest_chunk{0}, again{0}, full{0}, late{0};
};

inline void count(std::atomic<uint64_t>& n, uint64_t more = 1) {
  n.fetch_add(more, std::memory_order_relaxed);
}

}  // namespace dpi
