// The part of cuBLASLt's C interface that is used, as function pointers and numbers: the library is opened at
// run time, and without it everything still builds and runs. layer/lt_cuda.cpp compares each number with the
// toolkit's header at compile time; cuda_emu/lt_emu.cpp implements the functions for tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace dpi::backend::lt {

// cudaDataType_t
constexpr int32_t kR32F = 0;
constexpr int32_t kR16F = 2;
constexpr int32_t kR16BF = 14;
// cublasComputeType_t
constexpr int32_t kCompute32F = 68;
constexpr int32_t kCompute32FFastTf32 = 77;
// cublasLtMatmulDescAttributes_t
constexpr int32_t kDescTransA = 3;
constexpr int32_t kDescEpilogue = 7;
constexpr int32_t kDescBiasPointer = 8;
// cublasOperation_t
constexpr int32_t kOpT = 1;
// cublasLtEpilogue_t
constexpr int32_t kEpilogueDefault = 1;
constexpr int32_t kEpilogueRelu = 2;
constexpr int32_t kEpilogueBias = 4;
constexpr int32_t kEpilogueReluBias = 6;
// cublasLtMatmulPreferenceAttributes_t
constexpr int32_t kPrefMaxWorkspace = 1;
constexpr int32_t kPrefMinAlignmentA = 5;
constexpr int32_t kPrefMinAlignmentB = 6;
constexpr int32_t kPrefMinAlignmentC = 7;
constexpr int32_t kPrefMinAlignmentD = 8;

constexpr int32_t kSuccess = 0;

// The library's plain structs; it fills them in place, so that no call allocates.
struct Layout {
  uint64_t data[8] = {};
};
struct Desc {
  uint64_t data[32] = {};
};
struct Preference {
  uint64_t data[8] = {};
};
struct Algo {
  uint64_t data[8] = {};
  bool operator==(const Algo&) const = default;
};
struct HeuristicResult {
  Algo algo;
  size_t workspace = 0;
  int32_t state = 0;
  float waves = 0;
  int32_t reserved[4] = {};
};

using Handle = void*;

struct Api {
  int32_t (*create)(Handle*) = nullptr;
  int32_t (*destroy)(Handle) = nullptr;
  size_t (*version)() = nullptr;
  int32_t (*layout_init)(Layout*, size_t, int32_t type, uint64_t rows, uint64_t cols, int64_t ld) = nullptr;
  int32_t (*desc_init)(Desc*, size_t, int32_t compute, int32_t scale) = nullptr;
  int32_t (*desc_set)(Desc*, int32_t attribute, const void*, size_t) = nullptr;
  int32_t (*preference_init)(Preference*, size_t) = nullptr;
  int32_t (*preference_set)(Preference*, int32_t attribute, const void*, size_t) = nullptr;
  int32_t (*heuristic)(Handle, Desc*, Layout* a, Layout* b, Layout* c, Layout* d, Preference*, int asked,
                       HeuristicResult*, int* got) = nullptr;
  int32_t (*matmul)(Handle, Desc*, const void* alpha, const void* a, Layout*, const void* b, Layout*,
                    const void* beta, const void* c, Layout*, void* d, Layout*, const Algo*, void* workspace,
                    size_t, void* stream) = nullptr;
};

/// The library's functions, or null with the reason in *why. Opened once per process and never closed: its
/// kernels may be in captured graphs.
const Api* library(std::string* why);

}  // namespace dpi::backend::lt
