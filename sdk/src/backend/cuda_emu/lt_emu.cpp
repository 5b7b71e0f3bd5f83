// cuBLASLt for the emulated device, tests only: the functions of lt_api.hpp over one plain kernel, strict
// about what the library demands of layouts, alignment and algorithms, so that a wrong descriptor is an error
// or a wrong score here and not first on a GPU. Off unless DPI_EMU_CUBLASLT=1 is in the environment.
#include <cstdlib>
#include <cstring>

#include "backend/cuda/gemm/lt_api.hpp"
#include "kernels/cuda/common/typed.hpp"

namespace dpi::backend::lt {
namespace {

using kernels::DType;
namespace cuda = kernels::cuda;

constexpr int32_t kInvalid = 7;
constexpr int32_t kNotSupported = 15;
constexpr size_t kVersion = 990000;
constexpr int kAlgos = 3;
constexpr uint64_t kAlgoMark = 0x6470692d616c676f;
constexpr size_t kWorkspace[kAlgos] = {0, 4096, 1 << 20};

// What the opaque structs hold here.
struct LayoutData {
  int64_t type, rows, cols, ld;
};
struct DescData {
  int64_t compute, transposed_a, epilogue;
  const void* bias;
};
struct PreferenceData {
  uint64_t workspace;
  uint64_t alignment[4];
};

template <class T, class Opaque>
T get(const Opaque& o) {
  static_assert(sizeof(T) <= sizeof(Opaque));
  T t;
  std::memcpy(&t, o.data, sizeof(t));
  return t;
}
template <class T, class Opaque>
void put(const T& t, Opaque* o) {
  std::memcpy(o->data, &t, sizeof(t));
}

int32_t create(Handle* h) {
  *h = new char;
  return kSuccess;
}
int32_t destroy(Handle h) {
  delete static_cast<char*>(h);
  return kSuccess;
}
size_t version() { return kVersion; }

int32_t layout_init(Layout* l, size_t size, int32_t type, uint64_t rows, uint64_t cols, int64_t ld) {
  if (size != sizeof(*l) || (type != kR32F && type != kR16F && type != kR16BF)) return kInvalid;
  put(LayoutData{type, static_cast<int64_t>(rows), static_cast<int64_t>(cols), ld}, l);
  return kSuccess;
}

int32_t desc_init(Desc* d, size_t size, int32_t compute, int32_t scale) {
  if (size != sizeof(*d) || scale != kR32F || (compute != kCompute32F && compute != kCompute32FFastTf32))
    return kInvalid;
  put(DescData{compute, 0, kEpilogueDefault, nullptr}, d);
  return kSuccess;
}

int32_t desc_set(Desc* d, int32_t attribute, const void* value, size_t size) {
  auto data = get<DescData>(*d);
  int32_t number = 0;
  if (attribute == kDescBiasPointer) {
    if (size != sizeof(data.bias)) return kInvalid;
    std::memcpy(&data.bias, value, size);
  } else {
    if (size != sizeof(number)) return kInvalid;
    std::memcpy(&number, value, size);
    if (attribute == kDescTransA) data.transposed_a = number;
    if (attribute == kDescEpilogue) data.epilogue = number;
  }
  put(data, d);
  return kSuccess;
}

int32_t preference_init(Preference* p, size_t size) {
  if (size != sizeof(*p)) return kInvalid;
  put(PreferenceData{0, {256, 256, 256, 256}}, p);
  return kSuccess;
}

int32_t preference_set(Preference* p, int32_t attribute, const void* value, size_t size) {
  auto data = get<PreferenceData>(*p);
  if (attribute == kPrefMaxWorkspace) {
    if (size != sizeof(data.workspace)) return kInvalid;
    std::memcpy(&data.workspace, value, size);
  } else {
    uint32_t alignment = 0;
    if (size != sizeof(alignment) || attribute < kPrefMinAlignmentA || attribute > kPrefMinAlignmentD)
      return kInvalid;
    std::memcpy(&alignment, value, size);
    data.alignment[attribute - kPrefMinAlignmentA] = alignment;
  }
  put(data, p);
  return kSuccess;
}

struct Problem {
  DescData desc;
  LayoutData a, b, d;
};

// The combinations of types and epilogues that the library documents for what we use.
int32_t check(const Problem& p) {
  const bool fits = p.desc.transposed_a == kOpT && p.a.rows == p.b.rows && p.a.cols == p.d.rows &&
                    p.b.cols == p.d.cols && p.a.ld >= p.a.rows && p.b.ld >= p.b.rows && p.d.ld >= p.d.rows &&
                    p.a.rows > 0 && p.a.cols > 0 && p.b.cols > 0;
  if (!fits) return kInvalid;
  const bool types = p.a.type == p.b.type && (p.d.type == p.a.type || p.d.type == kR32F);
  const bool fast = p.desc.compute == kCompute32FFastTf32;
  if (!types || (fast && p.a.type != kR32F)) return kNotSupported;
  const int64_t element = p.a.type == kR32F ? 4 : 2;
  const bool tensor_cores = fast || p.a.type != kR32F;
  if (tensor_cores && (p.a.ld * element % 16 != 0 || p.b.ld * element % 16 != 0)) return kNotSupported;
  const bool bias = (p.desc.epilogue & kEpilogueBias) != 0;
  return bias && p.desc.bias == nullptr ? kInvalid : kSuccess;
}

int32_t heuristic(Handle, Desc* desc, Layout* a, Layout* b, Layout* c, Layout* d, Preference* preference,
                  int asked, HeuristicResult* out, int* got) {
  *got = 0;
  const Problem p = {get<DescData>(*desc), get<LayoutData>(*a), get<LayoutData>(*b), get<LayoutData>(*d)};
  if (std::memcmp(c->data, d->data, sizeof(d->data)) != 0) return kInvalid;
  if (const int32_t code = check(p); code != kSuccess) return code;
  const auto wish = get<PreferenceData>(*preference);
  for (int i = 0; i < kAlgos && *got < asked; ++i) {
    if (kWorkspace[i] > wish.workspace) continue;
    HeuristicResult& r = out[(*got)++];
    r = {};
    r.algo.data[0] = kAlgoMark;
    r.algo.data[1] = static_cast<uint64_t>(i);
    r.workspace = kWorkspace[i];
  }
  return *got > 0 ? kSuccess : kNotSupported;
}

// ---- the product

struct Work {
  Problem p;
  const void* a;
  const void* b;
  void* d;
  float* workspace;
};

DType type_of(int64_t type) {
  return type == kR16F ? DType::kF16 : type == kR16BF ? DType::kBF16 : DType::kF32;
}

void product_kernel(const Work w) {
  const Problem& p = w.p;
  const DType type = type_of(p.a.type);
  const DType to = type_of(p.d.type);
  const bool fast = p.desc.compute == kCompute32FFastTf32;
  for (int64_t i = cuda::global_thread(); i < p.d.rows * p.d.cols; i += cuda::total_threads()) {
    const int64_t m = i % p.d.rows;
    const int64_t n = i / p.d.rows;
    float sum = 0;
    for (int64_t k = 0; k < p.a.rows; ++k) {
      const float x = cuda::read_element(w.a, type, m * p.a.ld + k);
      const float y = cuda::read_element(w.b, type, n * p.b.ld + k);
      sum += fast ? cuda::tf32_of(x) * cuda::tf32_of(y) : x * y;
    }
    if ((p.desc.epilogue & kEpilogueBias) != 0) sum += cuda::read_element(p.desc.bias, to, m);
    if ((p.desc.epilogue & kEpilogueRelu) != 0 && sum < 0) sum = 0;
    cuda::write_element(w.d, to, n * p.d.ld + m, sum);
    if (w.workspace != nullptr && i == 0) w.workspace[0] = sum;  // shared workspaces show as races
  }
}

int32_t matmul(Handle, Desc* desc, const void* alpha, const void* a, Layout* a_layout, const void* b,
               Layout* b_layout, const void* beta, const void* c, Layout*, void* d, Layout* d_layout,
               const Algo* algo, void* workspace, size_t bytes, void* stream) {
  const Problem p = {get<DescData>(*desc), get<LayoutData>(*a_layout), get<LayoutData>(*b_layout),
                     get<LayoutData>(*d_layout)};
  if (const int32_t code = check(p); code != kSuccess) return code;
  const bool known = algo->data[0] == kAlgoMark && algo->data[1] < kAlgos && c == d;
  if (!known || *static_cast<const float*>(alpha) != 1 || *static_cast<const float*>(beta) != 0)
    return kInvalid;
  for (const void* pointer : {a, b, static_cast<const void*>(d)}) {
    if (reinterpret_cast<uintptr_t>(pointer) % 16 != 0) return kNotSupported;
  }
  if (bytes < kWorkspace[algo->data[1]] || reinterpret_cast<uintptr_t>(workspace) % 256 != 0) return kInvalid;
  float* const space = bytes > 0 ? static_cast<float*>(workspace) : nullptr;
  const Work w = {p, a, b, d, space};
  const dim3 grid(cuda::blocks_for(p.d.rows * p.d.cols, 128, 64));
  return cuda::launch(product_kernel, grid, dim3(128), stream, w) == 0 ? kSuccess : kInvalid;
}

}  // namespace

const Api* library(std::string* why) {
  static const Api kApi = {create,   destroy,         version,        layout_init, desc_init,
                           desc_set, preference_init, preference_set, heuristic,   matmul};
  const char* wanted = std::getenv("DPI_EMU_CUBLASLT");
  if (wanted != nullptr && std::strcmp(wanted, "1") == 0) return &kApi;
  *why = "the emulation runs without it";
  return nullptr;
}

}  // namespace dpi::backend::lt
