// The queue of the emulation: when things run, in which order, how long they take on the emulated clock, and
// how faults and told failures come out.
#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include "emu/planted.hpp"
#include "kernels/emu/control.hpp"
#include "kernels/emu/device_emu.hpp"
#include "support/sanitizer.hpp"

namespace dpi::test::queue_test {
namespace {

constexpr bool kUnderTsan = DPI_UNDER_TSAN;

bool mentions(const char* text) { return std::string(emu::last_error()).find(text) != std::string::npos; }

struct Streams {
  emu::Stream *one = nullptr, *two = nullptr;
  emu::Event *event = nullptr, *begin = nullptr, *end = nullptr;

  Streams() {
    emu::stream_create(&one);
    emu::stream_create(&two);
    emu::event_create(false, &event);
    emu::event_create(true, &begin);
    emu::event_create(true, &end);
  }
  ~Streams() {
    for (emu::Stream* s : {one, two}) emu::stream_destroy(s);
    for (emu::Event* e : {event, begin, end}) emu::event_destroy(e);
  }
  Streams(const Streams&) = delete;
};

TEST_CASE("queue: nothing runs before somebody waits") {
  const Streams s;
  int counter = 0;
  REQUIRE(count(&counter, Fault::kNone, s.one) == 0);
  if (!kUnderTsan) CHECK(counter == 0);  // reading it is a race
  CHECK(emu::stream_sync(s.one) == 0);
  CHECK(counter == 66);
}

TEST_CASE("queue: independent streams run in either order, ordered ones in one") {
  const Streams s;
  std::set<float> free_order, ordered;
  for (unsigned seed = 1; seed <= 32; ++seed) {
    emu::seed(seed);
    for (const bool joined : {false, true}) {
      if (kUnderTsan && !joined) continue;  // it is a race
      float a = 1, b = 2, out = 0;
      emu::copy(&out, &a, sizeof out, s.one);
      emu::event_record(s.event, s.one);
      if (joined) emu::event_wait(s.event, s.two);
      emu::copy(&out, &b, sizeof out, s.two);
      emu::stream_sync(s.one);
      emu::stream_sync(s.two);
      (joined ? ordered : free_order).insert(out);
    }
  }
  if (!kUnderTsan) CHECK(free_order == std::set<float>{1, 2});
  CHECK(ordered == std::set<float>{2});
}

TEST_CASE("queue: a fault is reported where the host waits, with kernel and place, once") {
  const Streams s;
  std::vector<float> y(64, 0);
  int counter = 0;
  REQUIRE(divergent(y.data(), Fault::kNone, s.one) == 0);
  emu::event_record(s.event, s.one);
  emu::event_wait(s.event, s.two);
  REQUIRE(count(&counter, Fault::kNone, s.two) == 0);
  CHECK(emu::stream_sync(s.two) == emu::kFault);
  CHECK(mentions("kernel divergent_kernel: divergent __syncthreads"));
  CHECK(counter == 0);  // what waits for a failed kernel does not run
  CHECK(emu::stream_sync(s.two) == 0);
  REQUIRE(count(&counter, Fault::kNone, s.two) == 0);
  CHECK(emu::stream_sync(s.two) == 0);
  CHECK(counter == 66);
}

// Milliseconds from the first to the last of four kernels on one stream, or on two that fork and join.
float time_of_four(const Streams& s, bool two_streams) {
  std::vector<int> counters(4, 0);
  emu::event_record(s.begin, s.one);
  emu::event_wait(s.begin, s.two);
  for (size_t i = 0; i < 4; ++i) count(&counters[i], Fault::kNone, two_streams && i % 2 == 1 ? s.two : s.one);
  emu::event_record(s.event, s.two);
  emu::event_wait(s.event, s.one);
  emu::event_record(s.end, s.one);
  emu::stream_sync(s.one);
  float ms = -1;
  CHECK(emu::event_elapsed(s.begin, s.end, &ms) == 0);
  return ms;
}

TEST_CASE("queue: branches overlap on the emulated clock, whatever the order they ran in") {
  const Streams s;
  std::set<float> single, overlapped;
  for (unsigned seed = 1; seed <= 8; ++seed) {
    emu::seed(seed);
    single.insert(time_of_four(s, false));
    overlapped.insert(time_of_four(s, true));
  }
  REQUIRE(single.size() == 1);
  REQUIRE(overlapped.size() == 1);
  CHECK(*overlapped.begin() > 0);
  CHECK(*overlapped.begin() < 0.75f * *single.begin());
}

TEST_CASE("queue: times are refused where there are none") {
  const Streams s;
  float ms = 0;
  CHECK(emu::event_elapsed(s.event, s.end, &ms) == emu::kInvalidValue);
  CHECK(mentions("timed"));
  CHECK(emu::event_elapsed(s.begin, s.end, &ms) == emu::kInvalidValue);
  CHECK(mentions("never recorded"));
  emu::event_record(s.begin, s.one);
  emu::event_record(s.end, s.one);
  CHECK(emu::event_elapsed(s.begin, s.end, &ms) == emu::kNotReady);
  emu::stream_sync(s.one);
  CHECK(emu::event_elapsed(s.begin, s.end, &ms) == 0);
}

TEST_CASE("queue: told failures leave the rest as it was") {
  const Streams s;
  int counter = 0;
  REQUIRE(dpi_emu_fail("launch:2:719,sync:1:4"));
  CHECK(count(&counter, Fault::kNone, s.one) == 0);
  CHECK(count(&counter, Fault::kNone, s.one) == 719);
  CHECK(mentions("injected fault: launch call 2"));
  CHECK(emu::stream_sync(s.one) == 4);
  CHECK(counter == 66);
  CHECK(dpi_emu_calls("launch") == 2);
  CHECK(dpi_emu_fail(nullptr));
  CHECK(emu::stream_sync(s.one) == 0);
}

TEST_CASE("queue: memory is counted, limited and given back") {
  void *a = nullptr, *b = nullptr;
  const uint64_t before = emu::memory_used(0);
  CHECK(emu::device_alloc(1000, &a) == 0);
  CHECK(emu::memory_used(0) == before + 1000);
  CHECK(emu::device_alloc(emu::memory_total(), &b) == emu::kOutOfMemory);
  CHECK(b == nullptr);
  CHECK(emu::pinned_free(a) == emu::kInvalidValue);
  CHECK(emu::device_free(a) == 0);
  CHECK(emu::memory_used(0) == before);
}

}  // namespace
}  // namespace dpi::test::queue_test
