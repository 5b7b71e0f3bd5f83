// The products that cuBLASLt computes. It knows column-major matrices: the weights [out][depth] are its A,
// read transposed, x [rows][depth] is its B, and the result its D with out rows, so that a bias belongs to a
// row of D and nothing is ever transposed in memory.
//
// Three tf32 products of more inputs than one accumulator holds well (kMostSplitIn) are as many products as
// it takes, each added to the one before in float32 outside the tensor cores (beta 1); the last has the end.
#include <algorithm>

#include "backend/cuda/gemm/gemm.hpp"
#include "backend/cuda/layer/device_layer.hpp"
#include "backend/cuda/layer/native_status.hpp"

namespace dpi::backend {

using kernels::DType;
namespace cuda = kernels::cuda;

struct Gemm::LtProblem {
  lt::Desc desc;
  lt::Layout weights, x, dst;
};

namespace {

constexpr size_t kMaxWorkspace = size_t{32} << 20;  // per stream: it lies in the op's scratch
constexpr size_t kAlignment = 256;                  // of what lies in scratch
constexpr uint32_t kPointerAlignment = 16;          // of x and dst, or the own kernel runs
constexpr int64_t kLeastOut = 8;
constexpr float kOne = 1;
constexpr float kZero = 0;

size_t rounded(size_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }
char* aligned(char* p) { return p + (kAlignment - reinterpret_cast<uintptr_t>(p) % kAlignment) % kAlignment; }

bool is_split(GemmImpl i) { return i == GemmImpl::kLtTf32x3; }
DType element_of(GemmImpl i) {
  return i == GemmImpl::kLtF16 ? DType::kF16 : i == GemmImpl::kLtBf16 ? DType::kBF16 : DType::kF32;
}
int32_t lt_type(DType t) { return t == DType::kF16 ? lt::kR16F : t == DType::kBF16 ? lt::kR16BF : lt::kR32F; }
int64_t sums_stride(int64_t out) { return (out + 7) / 8 * 8; }
bool is_aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % kPointerAlignment == 0; }

}  // namespace

// ---- what fits

std::string Gemm::lt_refusal() const {
  if (device_->api == nullptr) return device_->lt_reason;
  if (device_->strict) return "its rows may depend on the batch";
  if (x_.is_constant != 0 || x_.row_stride == 0 || dst_.row_stride == 0) return "a constant operand";
  if (in_ == 0) return "no inputs";
  if (out_ < kLeastOut) return "fewer than 8 outputs";
  return {};
}

// x must be of the element type, with rows that start on 16 bytes (SGEMM takes any).
bool Gemm::lt_must_stage(GemmImpl impl) const {
  const bool starts = x_.row_stride * kernels::dtype_bytes(element_of(impl)) % kPointerAlignment == 0;
  return is_split(impl) || x_.dtype != element_of(impl) || (!starts && impl != GemmImpl::kLtFp32);
}

// Of depths that do not end on 16 bytes the library multiplies with kernels that load element by element, on
// an H200 too: 429 -> 400 in fp16 took 27.7 us at 2048 rows and 7.3 at 64, where 400 -> 400 takes 6.1
// and 3.9.
bool Gemm::lt_should_stage(GemmImpl impl) const {
  const bool ends = in_ * kernels::dtype_bytes(element_of(impl)) % kPointerAlignment == 0;
  return !ends && impl != GemmImpl::kLtFp32;
}

int64_t Gemm::lt_packed_row(GemmImpl impl) const {
  return is_split(impl) ? cuda::split_slabs(in_) * 3 * cuda::split_depth(in_, cuda::split_slabs(in_))
                        : cuda::packed_depth(in_);
}

bool Gemm::lt_fuses_end(GemmImpl impl) const {
  if (beyond_half_ && dst_.dtype == DType::kF16) return false;
  return plain_end_ && (dst_.dtype == DType::kF32 || dst_.dtype == element_of(impl));
}

bool Gemm::lt_has_sums(GemmImpl impl) const { return !lt_fuses_end(impl) && dst_.dtype != DType::kF32; }

size_t Gemm::lt_staged_bytes(const GemmChoice& c, int64_t rows) const {
  if (!lt_stages_x(c)) return 0;
  return rounded(
      static_cast<size_t>(rows * lt_packed_row(c.impl) * kernels::dtype_bytes(element_of(c.impl))));
}

size_t Gemm::lt_sums_bytes(GemmImpl impl, int64_t rows) const {
  return lt_has_sums(impl) ? rounded(static_cast<size_t>(rows * sums_stride(out_)) * sizeof(float)) : 0;
}

// A call's memory: the sums go to dst before add is read, so the two must not share bytes.
bool Gemm::lt_takes(const GemmChoice& c, const kernels::DenseArgs& a) const {
  if (!lt_stages_x(c) && !is_aligned(a.x.data)) return false;
  if (lt_has_sums(c.impl)) return true;
  return is_aligned(a.dst.data) && (lt_fuses_end(c.impl) || a.add.data != a.dst.data);
}

// ---- descriptors

bool Gemm::lt_problem(const GemmChoice& choice, int64_t rows, bool last, LtProblem* p) const {
  const lt::Api& api = *device_->api;
  const GemmImpl impl = choice.impl;
  const int64_t packed = lt_packed_row(impl);
  const bool staged = lt_stages_x(choice);
  const int64_t depth = !staged ? in_ : is_split(impl) ? packed / cuda::split_slabs(in_) : packed;
  const bool fused = lt_fuses_end(impl);
  const DType dst_type = fused ? dst_.dtype : DType::kF32;
  const int64_t dst_stride = lt_has_sums(impl) ? sums_stride(out_) : dst_.row_stride;
  const bool fast = impl == GemmImpl::kLtTf32 || is_split(impl);
  const int32_t type = lt_type(element_of(impl));
  const int32_t transposed = lt::kOpT;
  const bool bias = fused && last && has_bias_;
  const bool relu = fused && last && relu_;
  const int32_t epilogue = (bias ? lt::kEpilogueBias : 0) | (relu ? lt::kEpilogueRelu : 0);
  const int32_t used = epilogue != 0 ? epilogue : lt::kEpilogueDefault;
  const void* bias_data = dst_type == DType::kF32 ? bias_ : narrow_bias_;
  int32_t bad =
      api.desc_init(&p->desc, sizeof(p->desc), fast ? lt::kCompute32FFastTf32 : lt::kCompute32F, lt::kR32F);
  bad |= api.desc_set(&p->desc, lt::kDescTransA, &transposed, sizeof(transposed));
  bad |= api.desc_set(&p->desc, lt::kDescEpilogue, &used, sizeof(used));
  if (bias) bad |= api.desc_set(&p->desc, lt::kDescBiasPointer, &bias_data, sizeof(bias_data));
  const auto k = static_cast<uint64_t>(depth);
  const auto m = static_cast<uint64_t>(out_);
  const auto n = static_cast<uint64_t>(rows);
  bad |= api.layout_init(&p->weights, sizeof(p->weights), type, k, m, packed);
  bad |= api.layout_init(&p->x, sizeof(p->x), type, k, n, staged ? packed : x_.row_stride);
  bad |= api.layout_init(&p->dst, sizeof(p->dst), lt_type(dst_type), m, n, dst_stride);
  return bad == lt::kSuccess;
}

std::vector<GemmChoice> Gemm::lt_candidates(GemmImpl impl, bool staged, int64_t rows, int most) const {
  LtProblem p;
  GemmChoice c;
  c.impl = impl;
  c.staged = staged && !lt_must_stage(impl);
  if (!lt_refusal().empty() || !lt_problem(c, rows, true, &p)) return {};
  const lt::Api& api = *device_->api;
  lt::Preference preference;
  int32_t bad = api.preference_init(&preference, sizeof(preference));
  bad |= api.preference_set(&preference, lt::kPrefMaxWorkspace, &kMaxWorkspace, sizeof(kMaxWorkspace));
  const auto weights = static_cast<uint32_t>(kAlignment);
  bad |= api.preference_set(&preference, lt::kPrefMinAlignmentA, &weights, sizeof(weights));
  for (const int32_t which : {lt::kPrefMinAlignmentB, lt::kPrefMinAlignmentC, lt::kPrefMinAlignmentD})
    bad |= api.preference_set(&preference, which, &kPointerAlignment, sizeof(kPointerAlignment));
  if (bad != lt::kSuccess) return {};
  std::vector<lt::HeuristicResult> found(static_cast<size_t>(most));
  int got = 0;
  const int32_t code = api.heuristic(device_->handle, &p.desc, &p.weights, &p.x, &p.dst, &p.dst, &preference,
                                     most, found.data(), &got);
  std::vector<GemmChoice> choices;
  for (int i = 0; code == lt::kSuccess && i < std::min(got, most); ++i) {
    const lt::HeuristicResult& r = found[static_cast<size_t>(i)];
    if (r.state != lt::kSuccess || r.workspace > kMaxWorkspace) continue;
    c.algo = r.algo;
    c.workspace = r.workspace;
    choices.push_back(c);
  }
  return choices;
}

// ---- running

bool Gemm::lt_product(const GemmChoice& choice, const kernels::DenseArgs& a, char* scratch,
                      void* stream) const {
  if (!lt_takes(choice, a)) return false;
  scratch = aligned(scratch);
  const void* x = a.x.data;
  if (lt_stages_x(choice)) {
    const DType type = element_of(choice.impl);
    const int code =
        is_split(choice.impl)
            ? cuda::split_rows(a.x, reinterpret_cast<float*>(scratch), cuda::split_slabs(in_), stream)
            : cuda::convert_rows(a.x, scratch, type, cuda::packed_depth(in_), stream);
    if (code != 0) return false;
    x = scratch;
  }
  char* sums = scratch + lt_staged_bytes(choice, a.dst.rows);
  char* workspace = sums + lt_sums_bytes(choice.impl, a.dst.rows);
  void* dst = lt_has_sums(choice.impl) ? static_cast<void*>(sums) : a.dst.data;
  if (!is_split(choice.impl))
    return lt_multiply(choice, a.dst.rows, {weights_, x, dst, workspace}, 0, stream);
  const int64_t slabs = cuda::split_slabs(in_);
  for (int64_t s = 0; s < slabs; ++s) {
    const int64_t at = s * lt_packed_row(choice.impl) / slabs;
    const LtMemory m = {static_cast<const float*>(split_weights_) + at, static_cast<const float*>(x) + at,
                        dst, workspace};
    if (!lt_multiply(choice, a.dst.rows, m, s, stream)) return false;
  }
  return true;
}

/// Slab `slab` of the depth; those behind the first are added to dst.
bool Gemm::lt_multiply(const GemmChoice& choice, int64_t rows, const LtMemory& m, int64_t slab,
                       void* stream) const {
  LtProblem p;
  const bool last = !is_split(choice.impl) || slab + 1 == cuda::split_slabs(in_);
  return lt_problem(choice, rows, last, &p) &&
         device_->api->matmul(device_->handle, &p.desc, &kOne, m.weights, &p.weights, m.x, &p.x,
                              slab > 0 ? &kOne : &kZero, m.dst, &p.dst, m.dst, &p.dst, &choice.algo,
                              m.workspace, choice.workspace, stream) == lt::kSuccess;
}

int Gemm::lt_finish(const GemmChoice& choice, const kernels::DenseArgs& a, char* scratch,
                    void* stream) const {
  if (lt_fuses_end(choice.impl)) return 0;
  if (!lt_has_sums(choice.impl)) return cuda::finish_dense(a, a.dst.data, a.dst.row_stride, stream);
  const char* sums = aligned(scratch) + lt_staged_bytes(choice, a.dst.rows);
  return cuda::finish_dense(a, reinterpret_cast<const float*>(sums), sums_stride(out_), stream);
}

namespace {

struct Memory {
  void* p = nullptr;
  ~Memory() {
    if (p != nullptr) layer::device_free(p);
  }
};

struct OwnStream {
  void* s = nullptr;
  ~OwnStream() {
    if (s != nullptr) layer::stream_destroy(s);
  }
};

}  // namespace

Status Gemm::try_lt() const {
  std::vector<Bucket> trials;  // the smallest bucket of each algorithm
  for (const Bucket& b : buckets_) {
    const bool known =
        std::any_of(trials.begin(), trials.end(), [&](const Bucket& t) { return t.choice == b.choice; });
    if (is_lt(b.choice.impl) && !known) trials.push_back(b);
  }
  if (trials.empty()) return ok_status();
  const int64_t rows = trials.back().rows;
  const auto x_bytes = rounded(static_cast<size_t>(rows * x_.row_stride * kernels::dtype_bytes(x_.dtype)));
  const auto dst_bytes =
      rounded(static_cast<size_t>(rows * dst_.row_stride * kernels::dtype_bytes(dst_.dtype)));
  size_t scratch_bytes_needed = 0;
  for (const Bucket& t : trials)
    scratch_bytes_needed = std::max(scratch_bytes_needed, scratch_bytes(t.choice, t.rows));
  Memory memory;
  OwnStream stream;
  int code = layer::device_alloc(x_bytes + dst_bytes + scratch_bytes_needed, &memory.p);
  if (code == 0) code = layer::stream_create(0, &stream.s);
  if (code != 0) return native_status(code, "trying cuBLASLt");
  auto* at = static_cast<char*>(memory.p);
  kernels::DenseArgs a;
  a.x = {reinterpret_cast<float*>(at), 0, x_.row_stride, x_.dims, x_.dtype};
  a.dst = {reinterpret_cast<float*>(at + x_bytes), 0, dst_.row_stride, dst_.dims, dst_.dtype};
  for (const Bucket& t : trials) {
    a.x.rows = a.dst.rows = t.rows;
    if (!lt_product(t.choice, a, at + x_bytes + dst_bytes, stream.s))
      return unsupported(std::string(gemm_name(t.choice.impl)) + " failed for " + std::to_string(t.rows) +
                         " rows");
  }
  code = layer::stream_synchronize(stream.s);
  return code == 0 ? ok_status() : native_status(code, "trying cuBLASLt");
}

size_t Gemm::scratch_bytes(const GemmChoice& choice, int64_t rows) const {
  if (!is_lt(choice.impl)) return 0;
  return kAlignment + lt_staged_bytes(choice, rows) + lt_sums_bytes(choice.impl, rows) + choice.workspace;
}

}  // namespace dpi::backend
