// One chunk of a batcher: the block into which requests are resolved one behind the other, who they are, and
// the scores. It is one of a lane's (lane.hpp), used again and again.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "runtime/batch/tickets.hpp"
#include "runtime/batch/wait_word.hpp"
#include "runtime/execute/flight.hpp"
#include "runtime/record/record_buffer.hpp"

namespace dpi {

/// A request in a chunk. Written while it is packed, and by who runs the chunk.
struct Member {
  RowRange rows;                         // of the chunk; none: the request was refused or had no room
  uint64_t came_ns = 0, resolve_ns = 0;  // the second where the chunk is timed
  Ticket* ticket = nullptr;              // null: a blocking call waits
  uint64_t armed = 0;
  uint64_t deadline_ns = 0;                  // of a submitted one
  const volatile int32_t* cancel = nullptr;  // the same
  Status status;                             // of its scores
  RecordBuffer::Entry* record = nullptr;     // of a submitted one that is drawn; ended by who delivers
};

struct alignas(128) Chunk {
  /// Counted down by members that leave and by who ran the chunk, from kHeld + that many.
  static constexpr uint32_t kHeld = 1u << 20;
  static constexpr uint32_t kOpen = ~0u;

  std::atomic<uint32_t> holders{0};
  std::atomic<uint32_t> number{0};   // in the order in which chunks were begun, of kNumbers
  WaitWord packed;                   // members that are packed, or refused: whose turn it is
  WaitWord members{kOpen};           // how many there are, once nobody can join
  WaitWord ended;                    // 1: what became of the members is written
  std::atomic<uint32_t> left_to{0};  // 1: a thread of the batcher leads it once its turn comes
  uint64_t begun_ns = 0;

  // by who packs, in turn, then by who runs it
  std::vector<Member> requests;
  PackedRows rows;
  std::vector<FeatureCounters> counters;
  bool wants_logits = false;
  bool timed = false, sampled = false;  // stages are measured; and go to the histograms
  std::vector<int64_t> ids;             // of option slow_us: [requests, features], how many each gave

  // by who runs it; read once it ended
  bool again = false;  // each request runs by itself
  uint64_t run_began_ns = 0, run_ns = 0;
  StageTimes stages;  // of a timed chunk
  std::vector<float> out, logits;

  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> block;
};

}  // namespace dpi
