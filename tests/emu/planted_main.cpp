// One planted fault per run, for the sanitizer builds: the sanitizer must end `emu_planted <fault>`, and
// `emu_planted none` must end with 0. Which build finds which fault: CMakeLists.txt.
#include <cstdio>
#include <cstring>
#include <vector>

#include "emu/planted.hpp"
#include "kernels/emu/simt_emu.hpp"

namespace dpi::test {
namespace {

bool asked(const char* name, const char* fault) { return std::strcmp(name, fault) == 0; }

Fault fault_of(const char* name) {
  if (asked(name, "shared_overrun")) return Fault::kSharedOverrun;
  if (asked(name, "missing_barrier")) return Fault::kMissingBarrier;
  if (asked(name, "plain_add")) return Fault::kPlainAdd;
  if (asked(name, "global_overrun")) return Fault::kGlobalOverrun;
  return Fault::kNone;
}

// Two streams: the second scales what the first rotated.
int run(const char* name) {
  const Fault fault = fault_of(name);
  emu::Stream *first = nullptr, *second = nullptr;
  emu::Event* event = nullptr;
  emu::stream_create(&first);
  emu::stream_create(&second);
  emu::event_create(false, &event);
  std::vector<float> x(64, 1), y(64, 0), z(64, 0);
  int counter = 0;
  int code = rotate(x.data(), y.data(), fault, first);
  code |= count(&counter, fault, first);
  emu::event_record(event, first);
  if (!asked(name, "missing_event")) emu::event_wait(event, second);
  code |= scale(y.data(), z.data(), 63, fault, second);
  // Element 63 is not computed; reading x past its end is a fault of its own.
  if (fault == Fault::kGlobalOverrun) {
    std::vector<float> exact(y.begin(), y.begin() + 33);
    code |= scale(exact.data(), z.data(), 33, fault, second);
    emu::stream_sync(second);
  }
  if (!asked(name, "missing_sync")) emu::stream_sync(second);
  float sum = 0;
  for (const float v : z) sum += v;
  emu::stream_sync(first);
  emu::stream_sync(second);
  emu::stream_destroy(first);
  emu::stream_destroy(second);
  emu::event_destroy(event);
  std::printf("sum %g, counter %d, code %d\n", static_cast<double>(sum), counter, code);
  return code == 0 ? 0 : 1;
}

}  // namespace
}  // namespace dpi::test

int main(int argc, char** argv) { return dpi::test::run(argc > 1 ? argv[1] : "none"); }
