// What a fuzz target is, for the two mains: fuzz_main.cpp (libFuzzer) and replay_main.cpp (the committed
// corpora, in ctest). To add one: a file with its kTarget, a line in replay_main.cpp and in CMakeLists.txt, a
// folder of corpus/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dpi::fuzz {

using InputBytes = std::span<const uint8_t>;

/// libFuzzer's own mutation: changes data[0, size), which may grow to `most`; returns the new size.
using PlainMutate = size_t (*)(uint8_t* data, size_t size, size_t most);

struct Target {
  const char* name;
  /// Runs one input and ends the program where the outcome is not a documented one (outcome.hpp).
  void (*run)(InputBytes input);
  /// A mutation that knows the input's form; null = libFuzzer's own.
  size_t (*mutate)(uint8_t* data, size_t size, size_t most, uint32_t seed, PlainMutate plain);
};

extern const Target kBundleTarget, kCapiTarget, kRowsTarget, kCsvTarget, kOptionsTarget, kTuningTarget,
    kDeltaTarget, kRecordTarget;

}  // namespace dpi::fuzz
