// Opens libcublasLt at run time: 13, which the kernels are built with, else 12, whose functions and structs
// of lt_api.hpp are the same.
#include <cublasLt.h>
#include <dlfcn.h>

#include "backend/cuda/layer/lt_api.hpp"

namespace dpi::backend::lt {
namespace {

static_assert(kR32F == CUDA_R_32F && kR16F == CUDA_R_16F && kR16BF == CUDA_R_16BF);
static_assert(kCompute32F == CUBLAS_COMPUTE_32F && kCompute32FFastTf32 == CUBLAS_COMPUTE_32F_FAST_TF32);
static_assert(kDescTransA == CUBLASLT_MATMUL_DESC_TRANSA && kDescEpilogue == CUBLASLT_MATMUL_DESC_EPILOGUE);
static_assert(kDescBiasPointer == CUBLASLT_MATMUL_DESC_BIAS_POINTER && kOpT == CUBLAS_OP_T);
static_assert(kEpilogueDefault == CUBLASLT_EPILOGUE_DEFAULT && kEpilogueRelu == CUBLASLT_EPILOGUE_RELU);
static_assert(kEpilogueBias == CUBLASLT_EPILOGUE_BIAS && kEpilogueReluBias == CUBLASLT_EPILOGUE_RELU_BIAS);
static_assert(kPrefMaxWorkspace == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(kPrefMinAlignmentA == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
static_assert(kPrefMinAlignmentB == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
static_assert(kPrefMinAlignmentC == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
static_assert(kPrefMinAlignmentD == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
static_assert(kSuccess == CUBLAS_STATUS_SUCCESS);
static_assert(sizeof(Layout) == sizeof(cublasLtMatrixLayoutOpaque_t));
static_assert(sizeof(Desc) == sizeof(cublasLtMatmulDescOpaque_t));
static_assert(sizeof(Preference) == sizeof(cublasLtMatmulPreferenceOpaque_t));
static_assert(sizeof(Algo) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(HeuristicResult) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(HeuristicResult, workspace) ==
              offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(HeuristicResult, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(sizeof(cublasComputeType_t) == 4 && sizeof(cudaDataType_t) == 4 && sizeof(cublasStatus_t) == 4);

constexpr const char* kNames[] = {"libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13",
                                  "libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so.12"};

struct Opened {
  Api api;
  std::string why;
  bool ok = false;
};

template <class F>
bool find(void* library, const char* name, F* out, std::string* why) {
  *out = reinterpret_cast<F>(dlsym(library, name));
  if (*out != nullptr) return true;
  *why = std::string("libcublasLt lacks ") + name;
  return false;
}

bool find_all(void* so, Opened* o) {
  Api& a = o->api;
  std::string* why = &o->why;
  return find(so, "cublasLtCreate", &a.create, why) && find(so, "cublasLtDestroy", &a.destroy, why) &&
         find(so, "cublasLtGetVersion", &a.version, why) &&
         find(so, "cublasLtMatrixLayoutInit_internal", &a.layout_init, why) &&
         find(so, "cublasLtMatmulDescInit_internal", &a.desc_init, why) &&
         find(so, "cublasLtMatmulDescSetAttribute", &a.desc_set, why) &&
         find(so, "cublasLtMatmulPreferenceInit_internal", &a.preference_init, why) &&
         find(so, "cublasLtMatmulPreferenceSetAttribute", &a.preference_set, why) &&
         find(so, "cublasLtMatmulAlgoGetHeuristic", &a.heuristic, why) &&
         find(so, "cublasLtMatmul", &a.matmul, why);
}

Opened open_library() {
  Opened o;
  void* so = nullptr;
  for (const char* name : kNames) {
    so = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (so != nullptr) break;
    const char* text = dlerror();
    if (o.why.empty()) o.why = text != nullptr ? text : "libcublasLt cannot be opened";
  }
  if (so == nullptr || !find_all(so, &o)) return o;
  const size_t version = o.api.version();
  o.ok = version / 10000 == 13 || version / 10000 == 12;
  if (!o.ok) o.why = "libcublasLt has version " + std::to_string(version) + ", expected 12 or 13";
  return o;
}

}  // namespace

const Api* library(std::string* why) {
  static const Opened* const kOpened = new Opened(open_library());
  if (kOpened->ok) return &kOpened->api;
  *why = kOpened->why;
  return nullptr;
}

}  // namespace dpi::backend::lt
