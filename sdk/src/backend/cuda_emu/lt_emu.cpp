// cuBLASLt for the emulated device, tests only: the functions of lt_api.hpp over plain kernels, strict about
// what the library demands of layouts, alignment and algorithms, so that a wrong descriptor is an error or a
// wrong score here and not first on a GPU. Tensor-core sums are cut as hardware cuts them; a workspace is
// filled with NaN before a product and after it. Off unless DPI_EMU_CUBLASLT=1 is in the environment.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include <dpi/kernels/narrow.hpp>

#include "backend/cuda/layer/lt_api.hpp"
#include "kernels/cuda/common/typed.hpp"
#include "kernels/emu/tensor_core.hpp"

namespace dpi::backend::lt {
namespace {

using kernels::DType;
namespace cuda = kernels::cuda;

constexpr int32_t kInvalid = 7;
constexpr int32_t kNotSupported = 15;
constexpr size_t kVersion = 990000;
constexpr int kAlgos = 3;
constexpr uint64_t kAlgoMark = 0x6470692d616c676f;
constexpr size_t kWorkspace[kAlgos] = {4096, 0, 1 << 20};  // the first choice has one

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

constexpr int kTile = emu::kTensorColumns;

struct Work {
  Problem p;
  const void* a;
  const void* b;
  void* d;
  bool adds;  // to what d holds
};

DType type_of(int64_t type) {
  return type == kR16F ? DType::kF16 : type == kR16BF ? DType::kBF16 : DType::kF32;
}

/// 16 elements along the depth of 16 columns of A and of B; zeros outside.
struct Slab {
  float a[kTile][kTile];  // [k][m]
  float b[kTile][kTile];  // [n][k]
};

void load(const Work& w, int64_t m, int64_t n, int64_t k, Slab* s) {
  const Problem& p = w.p;
  const DType type = type_of(p.a.type);
  const bool rounds = p.desc.compute == kCompute32FFastTf32;
  const auto element = [&](const void* from, const LayoutData& l, int64_t column, int64_t depth) {
    if (column >= l.cols || depth >= l.rows) return 0.0f;
    const float v = cuda::read_element(from, type, column * l.ld + depth);
    return rounds ? cuda::tf32_of(v) : v;
  };
  for (int i = 0; i < kTile; ++i) {
    for (int j = 0; j < kTile; ++j) {
      s->a[i][j] = element(w.a, p.a, m + j, k + i);
      s->b[i][j] = element(w.b, p.b, n + i, k + j);
    }
  }
}

void multiply(const Problem& p, const Slab& s, float (*sum)[kTile]) {
  const bool rounds = p.desc.compute == kCompute32FFastTf32;
  for (int n = 0; n < kTile; ++n) {
    if (rounds) {
      emu::tensor_add_tf32(sum[n], s.b[n], s.a, kTile);
    } else if (p.a.type != kR32F) {
      emu::tensor_add_16(sum[n], s.b[n], s.a, kTile);
    } else {
      for (int k = 0; k < kTile; ++k) {
        for (int m = 0; m < kTile; ++m) sum[n][m] = fmaf(s.a[k][m], s.b[n][k], sum[n][m]);
      }
    }
  }
}

bool holds(DType type, float v) {
  return type == DType::kF32 || (type == DType::kF16 ? kernels::half_holds(v) : kernels::bf16_holds(v));
}

/// A thread computes 16 x 16 of D, the whole depth in one accumulator.
void product_kernel(const Work w) {
  const Problem& p = w.p;
  const DType to = type_of(p.d.type);
  const int64_t tall = (p.d.rows + kTile - 1) / kTile;
  const int64_t wide = (p.d.cols + kTile - 1) / kTile;
  for (int64_t t = cuda::global_thread(); t < tall * wide; t += cuda::total_threads()) {
    const int64_t m = t % tall * kTile;
    const int64_t n = t / tall * kTile;
    float sum[kTile][kTile] = {};
    Slab s;
    for (int64_t k = 0; k < p.a.rows; k += kTile) {
      load(w, m, n, k, &s);
      multiply(p, s, sum);
    }
    for (int64_t j = n; j < n + kTile && j < p.d.cols; ++j) {
      for (int64_t i = m; i < m + kTile && i < p.d.rows; ++i) {
        float v = sum[j - n][i - m] + (w.adds ? cuda::read_element(w.d, to, j * p.d.ld + i) : 0.0f);
        if ((p.desc.epilogue & kEpilogueBias) != 0) v += cuda::read_element(p.desc.bias, to, i);
        if ((p.desc.epilogue & kEpilogueRelu) != 0 && v < 0) v = 0;
        if (!holds(to, v)) v = v < 0 ? -INFINITY : INFINITY;  // the library saturates nothing
        cuda::write_element(w.d, to, j * p.d.ld + i, v);
      }
    }
  }
}

/// NaN everywhere: what shares bytes with a workspace is lost.
void spoil_kernel(char* workspace, int64_t bytes) {
  const int64_t each = (bytes + cuda::total_threads() - 1) / cuda::total_threads();
  const int64_t begin = cuda::global_thread() * each;
  if (begin < bytes) memset(workspace + begin, 0xFF, static_cast<size_t>(std::min(each, bytes - begin)));
}

int32_t spoil(void* workspace, size_t bytes, void* stream) {
  if (bytes == 0) return kSuccess;
  return cuda::launch(spoil_kernel, dim3(1), dim3(32), stream, static_cast<char*>(workspace),
                      static_cast<int64_t>(bytes)) == 0
             ? kSuccess
             : kInvalid;
}

int32_t matmul(Handle, Desc* desc, const void* alpha, const void* a, Layout* a_layout, const void* b,
               Layout* b_layout, const void* beta, const void* c, Layout*, void* d, Layout* d_layout,
               const Algo* algo, void* workspace, size_t bytes, void* stream) {
  const Problem p = {get<DescData>(*desc), get<LayoutData>(*a_layout), get<LayoutData>(*b_layout),
                     get<LayoutData>(*d_layout)};
  if (const int32_t code = check(p); code != kSuccess) return code;
  const bool known = algo->data[0] == kAlgoMark && algo->data[1] < kAlgos && c == d;
  const float scale = *static_cast<const float*>(beta);
  if (!known || *static_cast<const float*>(alpha) != 1 || (scale != 0 && scale != 1)) return kInvalid;
  for (const void* pointer : {a, b, static_cast<const void*>(d)}) {
    if (reinterpret_cast<uintptr_t>(pointer) % 16 != 0) return kNotSupported;
  }
  if (bytes < kWorkspace[algo->data[1]] || reinterpret_cast<uintptr_t>(workspace) % 256 != 0) return kInvalid;
  const size_t needed = kWorkspace[algo->data[1]];
  if (const int32_t code = spoil(workspace, needed, stream); code != kSuccess) return code;
  const int64_t tiles = ((p.d.rows + kTile - 1) / kTile) * ((p.d.cols + kTile - 1) / kTile);
  const dim3 grid(cuda::blocks_for(tiles, 32, 64));
  if (cuda::launch(product_kernel, grid, dim3(32), stream, Work{p, a, b, d, scale == 1}) != 0)
    return kInvalid;
  return spoil(workspace, needed, stream);
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
