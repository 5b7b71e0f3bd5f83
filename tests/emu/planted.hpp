// Launches of the kernels of planted.cu. Each gives the emulation's code.
#pragma once

namespace dpi::test {

enum class Fault {
  kNone,
  kSharedOverrun,
  kMissingBarrier,
  kExitedLane,
  kForeignMask,
  kPlainAdd,
  kGlobalOverrun,
  kSharedWord,
  kTwoCalls,
  kShortWait,
  kOpenGroup
};

int rotate(const float* x, float* y, Fault fault, void* stream);   // x, y: [64]
int divergent(float* y, Fault fault, void* stream);                // y: [64]
int shuffle(const float* x, float* y, Fault fault, void* stream);  // x, y: [32]
int count(int* counter, Fault fault, void* stream);                // adds 66
int scale(const float* x, float* y, int n, Fault fault, void* stream);
int never_before(float* x, void* stream);                        // x: [64]
int fetch(const float* x, float* y, Fault fault, void* stream);  // x, y: [256], 16-byte aligned
int mark_blocks(int* words, Fault fault, void* stream);          // [2], one per block

}  // namespace dpi::test
