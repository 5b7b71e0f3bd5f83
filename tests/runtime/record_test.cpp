// The ring between callers who record and the thread that writes: entries come out whole, in the order of
// their places, and nobody waits for room.
#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "runtime/record/record_buffer.hpp"
#include "runtime/record/record_source.hpp"

namespace dpi::test::record_test {
namespace {

/// Fills an entry with numbers that follow from its first.
void fill(RecordBuffer::Entry* e, uint64_t first) {
  for (size_t i = 0; i < e->bytes() / 8; ++i) {
    const uint64_t v = first + i * 0x9E3779B97F4A7C15u;
    std::memcpy(e->payload() + 8 * i, &v, sizeof v);
  }
}

bool is_whole(RecordBuffer::Entry* e) {
  uint64_t first = 0;
  std::memcpy(&first, e->payload(), sizeof first);
  for (size_t i = 0; i < e->bytes() / 8; ++i) {
    uint64_t v = 0;
    std::memcpy(&v, e->payload() + 8 * i, sizeof v);
    if (v != first + i * 0x9E3779B97F4A7C15u) return false;
  }
  return true;
}

uint64_t first_of(RecordBuffer::Entry* e) {
  uint64_t first = 0;
  std::memcpy(&first, e->payload(), sizeof first);
  return first;
}

}  // namespace

TEST_CASE("entries come out in order, over the end of the ring and beyond") {
  RecordBuffer ring;
  RecordSource source;
  CHECK(ring.is_empty());
  CHECK(ring.front() == nullptr);
  uint64_t in = 0, out = 0;
  for (size_t i = 0; i < 4000; ++i) {
    const size_t bytes = 8 * (1 + i * 7919 % 6000);
    RecordBuffer::Entry* const e = ring.reserve(bytes, &source);
    REQUIRE(e != nullptr);
    CHECK(e->bytes() == bytes);
    CHECK(e->source() == &source);
    CHECK(reinterpret_cast<uintptr_t>(e->payload()) % 64 == 0);
    fill(e, in++);
    e->end(true);
    if (i % 3 != 2) continue;
    while (RecordBuffer::Entry* const next = ring.front()) {
      if (next->is_kept()) {
        CHECK(first_of(next) == out++);
        CHECK(is_whole(next));
      }
      ring.pop(next);
    }
    CHECK(ring.is_empty());
  }
  CHECK(out >= in - 2);
}

TEST_CASE("a full ring gives nothing, and everything again once it was read") {
  RecordBuffer ring;
  for (int round = 0; round < 3; ++round) {
    CAPTURE(round);
    size_t n = 0;
    while (RecordBuffer::Entry* const e = ring.reserve(RecordBuffer::kMostPayload / 4, nullptr)) {
      fill(e, n++);
      e->end(true);
    }
    CHECK(n >= 6);
    CHECK(n * RecordBuffer::kMostPayload / 4 <= RecordBuffer::kBytes);
    CHECK(ring.reserve(RecordBuffer::kMostPayload, nullptr) == nullptr);
    size_t seen = 0;
    while (RecordBuffer::Entry* const e = ring.front()) {
      if (e->is_kept()) {
        CHECK(first_of(e) == seen++);
        CHECK(is_whole(e));
      }
      ring.pop(e);
    }
    CHECK(seen == n);
    for (int i = 0; i < 30; ++i) {  // over all that lay there before
      RecordBuffer::Entry* const open = ring.reserve(size_t{100} << 10, nullptr);
      REQUIRE(open != nullptr);
      for (RecordBuffer::Entry* e = ring.front(); e != nullptr && e != open; e = ring.front()) ring.pop(e);
      CHECK(ring.front() == nullptr);
      open->end(false);
      for (RecordBuffer::Entry* e = ring.front(); e != nullptr; e = ring.front()) ring.pop(e);
    }
    RecordBuffer::Entry* const largest = ring.reserve(RecordBuffer::kMostPayload, nullptr);
    REQUIRE(largest != nullptr);
    largest->end(false);
    for (RecordBuffer::Entry* e = ring.front(); e != nullptr; e = ring.front()) ring.pop(e);
    CHECK(ring.is_empty());
  }
}

TEST_CASE("an open entry holds back those behind it, and one that is given up is none") {
  RecordBuffer ring;
  RecordBuffer::Entry* const a = ring.reserve(64, nullptr);
  RecordBuffer::Entry* const b = ring.reserve(64, nullptr);
  RecordBuffer::Entry* const c = ring.reserve(64, nullptr);
  b->end(true);
  CHECK(ring.front() == nullptr);
  CHECK(!ring.is_empty());
  a->end(false);
  REQUIRE(ring.front() == a);
  CHECK(!a->is_kept());
  ring.pop(a);
  REQUIRE(ring.front() == b);
  CHECK(b->is_kept());
  ring.pop(b);
  CHECK(ring.front() == nullptr);
  c->end(true);
  CHECK(ring.front() == c);
}

TEST_CASE("callers at once: what is kept comes out whole, once each") {
  constexpr int kCallers = 4;
  constexpr uint64_t kEach = 3000;
  RecordBuffer ring;
  std::atomic<int> running{kCallers};
  std::vector<uint64_t> kept(kCallers, 0);
  std::vector<std::thread> callers;
  callers.reserve(kCallers);
  for (int t = 0; t < kCallers; ++t) {
    callers.emplace_back([&, t] {
      for (uint64_t i = 0; i < kEach; ++i) {
        const size_t bytes = 8 * (1 + (i * 31 + static_cast<uint64_t>(t) * 17) % 3000);
        RecordBuffer::Entry* const e = ring.reserve(bytes, nullptr);
        if (e == nullptr) continue;
        fill(e, (static_cast<uint64_t>(t) << 32) + i);
        const bool keep = i % 5 != 0;
        kept[static_cast<size_t>(t)] += keep ? 1 : 0;
        e->end(keep);
      }
      --running;
    });
  }
  std::vector<uint64_t> seen(kCallers, 0), last(kCallers, 0);
  bool whole = true, in_order = true;
  for (;;) {
    const bool ended = running.load() == 0;
    RecordBuffer::Entry* const e = ring.front();
    if (e == nullptr) {
      if (ended && ring.is_empty()) break;
      std::this_thread::yield();
      continue;
    }
    if (e->is_kept()) {
      const uint64_t first = first_of(e);
      const size_t t = first >> 32;
      const uint64_t i = first & 0xFFFFFFFFu;
      REQUIRE(t < kCallers);
      whole = whole && is_whole(e);
      in_order = in_order && (seen[t] == 0 || i > last[t]);
      last[t] = i;
      ++seen[t];
    }
    ring.pop(e);
  }
  for (std::thread& t : callers) t.join();
  CHECK(whole);
  CHECK(in_order);
  CHECK(seen == kept);
}

}  // namespace dpi::test::record_test
