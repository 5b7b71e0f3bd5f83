// The emulation itself: right kernels give right results in every order of threads, faults that it detects
// give an error that names them, and the next launch is sound again.
#include <doctest/doctest.h>

#include <numeric>
#include <string>
#include <vector>

#include "emu/planted.hpp"
#include "kernels/emu/simt_emu.hpp"

namespace dpi::test::emu_test {
namespace {

struct OwnedStream {
  emu::Stream* s = nullptr;
  OwnedStream() { emu::stream_create(&s); }
  ~OwnedStream() { emu::stream_destroy(s); }
};

std::vector<float> ramp(size_t n) {
  std::vector<float> x(n);
  std::iota(x.begin(), x.end(), 0.0f);
  return x;
}

bool mentions(const char* text) { return std::string(emu::last_error()).find(text) != std::string::npos; }

bool rotates(emu::Stream* s) {
  const std::vector<float> x = ramp(64);
  std::vector<float> y(64, -1);
  if (rotate(x.data(), y.data(), Fault::kNone, s) != 0) return false;
  emu::stream_sync(s);
  for (size_t i = 0; i < 64; ++i) {
    if (y[i] != static_cast<float>((i + 1) % 64)) return false;
  }
  return true;
}

TEST_CASE("emulation: shared memory and barriers, in many orders") {
  const OwnedStream stream;
  for (unsigned seed = 1; seed <= 10; ++seed) {
    emu::seed(seed);
    CHECK(rotates(stream.s));
  }
}

TEST_CASE("emulation: a failure stays to be found until it is taken, and no launch takes it for its own") {
  const OwnedStream stream;
  int counter = 0;
  static_cast<void>(cudaGetLastError());
  CHECK(emu::event_record(nullptr, nullptr) == emu::kInvalidValue);
  CHECK(cudaPeekAtLastError() == emu::kInvalidValue);
  CHECK(count(&counter, Fault::kNone, stream.s) == 0);  // a good launch, after a call that failed
  CHECK(cudaPeekAtLastError() == emu::kInvalidValue);   // success takes nothing
  CHECK(count(&counter, Fault::kNone, nullptr) == emu::kInvalidValue);
  CHECK(cudaPeekAtLastError() == 0);  // a launch that fails leaves nothing
  CHECK(emu::event_record(nullptr, nullptr) == emu::kInvalidValue);
  CHECK(cudaGetLastError() == emu::kInvalidValue);
  CHECK(cudaGetLastError() == 0);
  CHECK(emu::stream_sync(stream.s) == 0);
  CHECK(counter == 66);
}

TEST_CASE("emulation: shuffles sum a warp, atomics count") {
  const OwnedStream stream;
  const std::vector<float> x = ramp(32);
  std::vector<float> y(32, -1);
  int counter = 0;
  REQUIRE(shuffle(x.data(), y.data(), Fault::kNone, stream.s) == 0);
  REQUIRE(count(&counter, Fault::kNone, stream.s) == 0);
  emu::stream_sync(stream.s);
  CHECK(y == std::vector<float>(32, 496));
  CHECK(counter == 66);
}

TEST_CASE("emulation: a divergent barrier is named with both places, and the next launch is sound") {
  const OwnedStream stream;
  std::vector<float> y(64, 0);
  REQUIRE(divergent(y.data(), Fault::kNone, stream.s) == 0);
  CHECK(emu::stream_sync(stream.s) == emu::kFault);
  CHECK(mentions("divergent __syncthreads"));
  CHECK(mentions("planted.cu"));
  CHECK(rotates(stream.s));
}

TEST_CASE("emulation: a mask that names an exited lane is refused") {
  const OwnedStream stream;
  const std::vector<float> x = ramp(32);
  std::vector<float> y(32, 0);
  REQUIRE(shuffle(x.data(), y.data(), Fault::kExitedLane, stream.s) == 0);
  CHECK(emu::stream_sync(stream.s) == emu::kFault);
  CHECK(mentions("mask names an exited lane"));
  CHECK(rotates(stream.s));
}

TEST_CASE("emulation: a block of too many threads is refused") {
  const OwnedStream stream;
  CHECK(emu::launch_body(nullptr, dim3(1), dim3(1025), stream.s, new emu::Body([] {})) ==
        emu::kInvalidConfiguration);
  CHECK(mentions("1 to 1024 threads"));
}

}  // namespace
}  // namespace dpi::test::emu_test
