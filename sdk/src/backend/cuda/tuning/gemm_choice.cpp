#include "backend/cuda/tuning/gemm_choice.hpp"

namespace dpi::backend {

namespace {

constexpr const char* kNames[] = {"own-simt",      "own-tf32",      "own-3xtf32",    "own-fp16",
                                  "own-bf16",      "cublaslt-fp32", "cublaslt-tf32", "cublaslt-3xtf32",
                                  "cublaslt-fp16", "cublaslt-bf16"};
constexpr const char* kPrecisions[] = {"fp32", "tf32", "fp16", "bf16"};

}  // namespace

const char* gemm_name(GemmImpl impl) {
  return impl < GemmImpl::kCount ? kNames[static_cast<int>(impl)] : "?";
}

GemmImpl gemm_impl(const std::string& name) {
  int i = 0;
  while (i < static_cast<int>(GemmImpl::kCount) && name != kNames[i]) ++i;
  return static_cast<GemmImpl>(i);
}

const char* precision_name(GemmPrecision p) { return kPrecisions[static_cast<int>(p)]; }

}  // namespace dpi::backend
