// Captured graphs of the emulation: the nodes and edges that a capture saw, what no capture allows, and
// replays that give the same result in every order.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "emu/planted.hpp"
#include "kernels/emu/device_emu.hpp"

namespace dpi::test::graph_test {
namespace {

bool mentions(const char* text) { return std::string(emu::last_error()).find(text) != std::string::npos; }

// Two streams, x -> rotated -> [doubled | counted] -> out, joined by events.
struct Fork {
  emu::Stream *main = nullptr, *side = nullptr;
  emu::Event *forked = nullptr, *joined = nullptr;
  std::vector<float> x = std::vector<float>(64, 1);
  std::vector<float> rotated = std::vector<float>(64, -1);
  std::vector<float> doubled = std::vector<float>(64, -1);
  std::vector<float> out = std::vector<float>(64, -1);
  int counter = 0;

  Fork() {
    emu::stream_create(&main);
    emu::stream_create(&side);
    emu::event_create(false, &forked);
    emu::event_create(false, &joined);
    REQUIRE(start(true) == 0);  // a first launch may not be captured
    REQUIRE(emu::stream_sync(main) == 0);
    counter = 0;
  }
  ~Fork() {
    for (emu::Stream* s : {main, side}) emu::stream_destroy(s);
    for (emu::Event* e : {forked, joined}) emu::event_destroy(e);
  }
  Fork(const Fork&) = delete;

  int start(bool join) {
    int code = rotate(x.data(), rotated.data(), Fault::kNone, main);
    code |= emu::event_record(forked, main);
    code |= emu::event_wait(forked, side);
    code |= scale(rotated.data(), doubled.data(), 64, Fault::kNone, side);
    code |= count(&counter, Fault::kNone, main);
    code |= emu::event_record(joined, side);
    if (join) code |= emu::event_wait(joined, main);
    code |= emu::copy(out.data(), doubled.data(), out.size() * sizeof(float), main);
    return code;
  }

  emu::Graph* capture() {
    emu::Graph* g = nullptr;
    REQUIRE(emu::capture_begin(main) == 0);
    REQUIRE(start(true) == 0);
    REQUIRE_MESSAGE(emu::capture_end(main, &g) == 0, emu::last_error());
    return g;
  }
};

TEST_CASE("graph: nothing runs while it is captured, every launch runs it once") {
  Fork f;
  emu::Graph* g = f.capture();
  emu::stream_sync(f.main);
  CHECK(f.counter == 0);
  for (int i = 1; i <= 8; ++i) {
    emu::seed(static_cast<unsigned>(i));
    f.x.assign(64, static_cast<float>(i));
    CHECK(emu::graph_launch(g, f.main) == 0);
    CHECK(emu::stream_sync(f.main) == 0);
    CHECK(f.counter == 66 * i);
    CHECK(f.out == std::vector<float>(64, static_cast<float>(2 * i)));
  }
  CHECK(emu::graph_free(g) == 0);
}

TEST_CASE("graph: nodes and edges as captured") {
  Fork f;
  emu::Graph* g = f.capture();
  CHECK(emu::graph_text(g) ==
        "0 kernel rotate_kernel <-\n"
        "1 kernel scale_kernel <- 0\n"
        "2 kernel count_kernel <- 0\n"
        "3 copy 256 <- 1 2\n");
  CHECK(emu::graph_free(g) == 0);
}

TEST_CASE("graph: a stream that is not joined back is named") {
  Fork f;
  emu::Graph* g = nullptr;
  REQUIRE(emu::capture_begin(f.main) == 0);
  REQUIRE(f.start(false) == 0);
  CHECK(emu::capture_end(f.main, &g) == emu::kCaptureUnjoined);
  CHECK(mentions("was not joined back"));
  CHECK(g == nullptr);
  CHECK(f.start(true) == 0);  // both streams run again
  CHECK(emu::stream_sync(f.main) == 0);
  CHECK(f.counter == 66);
}

TEST_CASE("graph: synchronising or allocating spoils the capture") {
  Fork f;
  emu::Graph* g = nullptr;
  REQUIRE(emu::capture_begin(f.main) == 0);
  CHECK(emu::stream_sync(f.main) == emu::kCaptureUnsupported);
  CHECK(emu::capture_end(f.main, &g) == emu::kCaptureInvalidated);
  CHECK(mentions("synchronize"));
  REQUIRE(emu::capture_begin(f.main) == 0);
  CHECK(emu::refuse_in_capture("device_alloc") == emu::kCaptureUnsupported);
  CHECK(emu::capture_end(f.main, &g) == emu::kCaptureInvalidated);
  CHECK(mentions("device_alloc"));
  CHECK(emu::refuse_in_capture("device_alloc") == 0);
}

TEST_CASE("graph: the first launch of a kernel spoils the capture") {
  const Fork f;
  std::vector<float> x(64, 1);
  emu::Graph* g = nullptr;
  for (const bool loaded : {false, true}) {
    REQUIRE(emu::capture_begin(f.main) == 0);
    CHECK((never_before(x.data(), f.main) == 0) == loaded);
    CHECK(emu::capture_end(f.main, &g) == (loaded ? 0 : emu::kCaptureInvalidated));
    if (!loaded) CHECK(mentions("first launch of kernel"));
    if (!loaded) CHECK(never_before(x.data(), f.main) == 0);
  }
  CHECK(emu::graph_free(g) == 0);
  CHECK(emu::stream_sync(f.main) == 0);
}

TEST_CASE("graph: events do not cross the border of a capture") {
  Fork f;
  emu::Graph* g = nullptr;
  emu::event_record(f.forked, f.side);
  REQUIRE(emu::capture_begin(f.main) == 0);
  CHECK(emu::event_wait(f.forked, f.main) == emu::kCaptureIsolation);
  CHECK(emu::capture_end(f.main, &g) == emu::kCaptureInvalidated);
  CHECK(emu::capture_end(f.main, &g) == emu::kCaptureUnmatched);
  REQUIRE(emu::capture_begin(f.main) == 0);
  CHECK(emu::event_record(f.joined, f.main) == 0);
  REQUIRE(emu::capture_end(f.main, &g) == 0);
  CHECK(emu::event_wait(f.joined, f.side) == emu::kCapturedEvent);
  CHECK(emu::graph_free(g) == 0);
}

TEST_CASE("graph: one launch at a time, not freed while it runs") {
  Fork f;
  emu::Graph* g = f.capture();
  CHECK(emu::graph_launch(g, f.main) == 0);
  CHECK(emu::graph_launch(g, f.main) == 0);  // behind the first
  CHECK(emu::graph_launch(g, f.side) == emu::kInvalidValue);
  CHECK(mentions("while it runs"));
  CHECK(emu::graph_free(g) == emu::kInvalidValue);
  CHECK(emu::stream_sync(f.main) == 0);
  CHECK(f.counter == 132);
  CHECK(emu::graph_launch(g, f.side) == 0);
  CHECK(emu::stream_sync(f.side) == 0);
  CHECK(emu::graph_free(g) == 0);
}

TEST_CASE("graph: a fault of a node is reported where the host waits, and the next launch runs") {
  Fork f;
  emu::Graph* g = nullptr;
  float y[64] = {};
  REQUIRE(divergent(y, Fault::kNone, f.main) == 0);  // a first launch may not be captured
  REQUIRE(emu::stream_sync(f.main) == emu::kFault);
  REQUIRE(emu::capture_begin(f.main) == 0);
  REQUIRE(divergent(y, Fault::kNone, f.main) == 0);
  REQUIRE(count(&f.counter, Fault::kNone, f.main) == 0);
  REQUIRE(emu::capture_end(f.main, &g) == 0);
  for (int i = 0; i < 2; ++i) {
    CHECK(emu::graph_launch(g, f.main) == 0);
    CHECK(emu::stream_sync(f.main) == emu::kFault);
    CHECK(mentions("kernel divergent_kernel: divergent __syncthreads"));
    CHECK(f.counter == 0);
  }
  CHECK(emu::graph_free(g) == 0);
  CHECK(f.start(true) == 0);
  CHECK(emu::stream_sync(f.main) == 0);
  CHECK(f.counter == 66);
}

}  // namespace
}  // namespace dpi::test::graph_test
