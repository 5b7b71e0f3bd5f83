#include "backend/cuda/gemm/gemm.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

#include <dpi/kernels/narrow.hpp>

#include "backend/abi/batch_bucket.hpp"
#include "backend/cuda/layer/device_layer.hpp"
#include "backend/cuda/layer/native_status.hpp"
#include "backend/cuda/layer/packer.hpp"
#include "backend/cuda/tuning/tuning.hpp"
#include "kernels/cuda/kernels.hpp"

namespace dpi::backend {

using kernels::DType;
namespace cuda = kernels::cuda;

namespace {

constexpr float kLargestHalf = 65504;

// ---- packing

uint16_t narrowed(float v, DType type) {
  return type == DType::kF16 ? kernels::float_to_half(v) : kernels::float_to_bf16(v);
}

std::vector<uint16_t> narrowed(const float* data, int64_t n, DType type) {
  std::vector<uint16_t> to(static_cast<size_t>(n));
  for (size_t i = 0; i < to.size(); ++i) to[i] = narrowed(data[i], type);
  return to;
}

/// Rows of packed_depth(in) elements f(value), zeros past `in`.
template <class T, class F>
std::vector<T> packed_weights(const kernels::Param& w, const F& f) {
  const int64_t in = w.dims.d[1];
  const int64_t depth = cuda::packed_depth(in);
  std::vector<T> to(static_cast<size_t>(w.dims.d[0] * depth), T{});
  for (int64_t o = 0; o < w.dims.d[0]; ++o) {
    for (int64_t i = 0; i < in; ++i) to[static_cast<size_t>(o * depth + i)] = f(w.data[o * in + i]);
  }
  return to;
}

/// Rows of slabs, each [hi | lo | hi], as split_rows makes those of x.
std::vector<float> split_weights(const kernels::Param& w) {
  const int64_t in = w.dims.d[1];
  const int64_t slabs = cuda::split_slabs(in), depth = cuda::split_depth(in, slabs);
  std::vector<float> to(static_cast<size_t>(w.dims.d[0] * slabs * 3 * depth));
  for (int64_t o = 0; o < w.dims.d[0]; ++o) {
    for (int64_t i = 0; i < in; ++i) {
      float* high = to.data() + (o * slabs + i / depth) * 3 * depth + i % depth;
      high[0] = high[2 * depth] = kernels::round_to_tf32(w.data[o * in + i]);
      high[depth] = kernels::round_to_tf32(w.data[o * in + i] - high[0]);
    }
  }
  return to;
}

bool fits_half(const kernels::Param& w) {
  return std::all_of(w.data, w.data + w.dims.size(), [](float v) { return !(std::fabs(v) > kLargestHalf); });
}

}  // namespace

GemmDevice::~GemmDevice() {
  if (handle == nullptr) return;
  layer::use(index);
  api->destroy(handle);
}

namespace {

Result<std::shared_ptr<const GemmDevice>> make_device(int index, int32_t precision, bool strict,
                                                      const std::string& tuning) {
  if (precision == 4)
    return unsupported("cuda has no int8 arithmetic, precision int8 was asked; use bf16, fp16 or device=cpu");
  if (precision < 0 || precision > 3)
    return invalid_argument("precision " + std::to_string(precision) + ", expected 0 to 3");
  auto d = std::make_shared<GemmDevice>();
  d->index = index;
  d->precision = static_cast<GemmPrecision>(precision);
  d->strict = strict;
  layer::Properties properties;
  if (const int code = layer::properties(index, &properties); code != 0)
    return native_status(code, "properties of the GPU");
  d->size = {properties.multiprocessors, properties.threads_per_multiprocessor};
  d->capability = properties.capability;
  const lt::Api* api = lt::library(&d->lt_reason);
  if (api != nullptr) {
    const int32_t code = api->create(&d->handle);
    if (code == lt::kSuccess) {
      d->api = api;
    } else {
      d->handle = nullptr;
      d->lt_reason = "cublasLtCreate gives " + std::to_string(code);
    }
  }
  const TuningHeader here = {properties.name, properties.capability, d->api != nullptr ? api->version() : 0,
                             properties.multiprocessors};
  DPI_ASSIGN_OR_RETURN(d->tuning, load_tuning(tuning, here, &d->tuning_note));
  return std::shared_ptr<const GemmDevice>(std::move(d));
}

}  // namespace

Result<std::shared_ptr<const GemmDevice>> open_gemm_device(int index, int32_t precision, bool strict,
                                                           const std::string& tuning) {
  return make_device(index, precision, strict, tuning);
}

// ---- making one

Gemm::Gemm(const OwnedOp& op, std::shared_ptr<const GemmDevice> device, bool beyond_half)
    : device_(std::move(device)),
      precision_(device_->precision),
      in_(op.param(0).dims.d[1]),
      out_(op.param(0).dims.d[0]),
      x_(op.input(0)),
      dst_(op.output(0)),
      max_rows_(std::max<int64_t>(1, op.max_rows)),
      has_bias_(op.param(1).data != nullptr),
      beyond_half_(beyond_half) {
  using kernels::UnaryKind;
  const UnaryKind act = op.segments.size() == 1 ? op.segments[0].act.kind : UnaryKind::kDice;
  relu_ = act == UnaryKind::kRelu;
  plain_end_ = (relu_ || act == UnaryKind::kIdentity) && is_absent(op.input(1)) && is_absent(op.input(2)) &&
               is_absent(op.input(3));
}

Gemm::~Gemm() {
  if (memory_ == nullptr) return;
  layer::use(device_->index);
  layer::device_free(memory_);
}

Result<std::unique_ptr<Gemm>> Gemm::make(const OwnedOp& op, std::shared_ptr<const GemmDevice> device,
                                         bool beyond_half) {
  std::unique_ptr<Gemm> g(new Gemm(op, std::move(device), beyond_half));
  DPI_RETURN_IF_ERROR(g->pack(op));
  if (!g->lt_possible() && !g->device_->lt_reason.empty()) g->note("cublaslt: " + g->device_->lt_reason);
  if (!g->device_->tuning_note.empty()) g->note("tuning: " + g->device_->tuning_note);
  g->choose_all();
  if (const Status s = g->try_lt(); !s.ok()) {  // own kernels do without
    g->note("cublaslt: " + s.message());
    g->lt_failed_ = true;
    g->choose_all();
  }
  return g;
}

Status Gemm::pack(const OwnedOp& op) {
  const kernels::Param w = op.param(0);
  const kernels::Param bias = op.param(1);
  if (precision_ == GemmPrecision::kFp16 && !fits_half(w)) {
    precision_ = GemmPrecision::kTf32;
    note("fp16: a weight is beyond 65504, tf32 takes its place");
  }
  Packer packer;
  size_t at = 0;
  size_t split_at = 0;
  size_t narrow_bias_at = 0;
  const bool narrow = precision_ == GemmPrecision::kFp16 || precision_ == GemmPrecision::kBf16;
  const DType type = precision_ == GemmPrecision::kFp16 ? DType::kF16 : DType::kBF16;
  if (narrow) {
    at = packer.add(packed_weights<uint16_t>(w, [type](float v) { return narrowed(v, type); }));
    if (has_bias_) narrow_bias_at = packer.add(narrowed(bias.data, bias.dims.size(), type));
  } else {
    at = packer.add(packed_weights<float>(w, [](float v) { return v; }));
  }
  const bool split = precision_ == GemmPrecision::kFp32 && lt_possible();
  if (split) split_at = packer.add(split_weights(w));
  size_t rounded_at = 0;
  const bool rounds = precision_ == GemmPrecision::kTf32;  // here once, not at each load of a tile
  if (rounds) rounded_at = packer.add(packed_weights<float>(w, kernels::round_to_tf32));
  const size_t bias_at = packer.add(bias.data, has_bias_ ? static_cast<size_t>(bias.dims.size()) : 0);
  DPI_RETURN_IF_ERROR(packer.upload("weights of op '" + op.name + "'", &memory_));
  memory_bytes_ = packer.size();
  const auto* base = static_cast<const char*>(memory_);
  weights_ = base + at;
  if (split) split_weights_ = base + split_at;
  if (rounds) rounded_weights_ = base + rounded_at;
  if (has_bias_) bias_ = base + bias_at;
  if (has_bias_ && narrow) narrow_bias_ = base + narrow_bias_at;
  return ok_status();
}

void Gemm::note(const std::string& text) {
  if (note_.find(text) == std::string::npos) note_ += "; refused: " + text;
}

// ---- choosing

GemmShape Gemm::shape(int64_t rows) const { return {rows, in_, out_, !plain_end_}; }

// Under `strict` the tile must not depend on the batch either.
GemmChoice Gemm::own_choice(GemmImpl impl, int64_t rows) const {
  GemmChoice c;
  c.impl = impl;
  if (impl != GemmImpl::kOwnSimt)
    c.tile = default_tile(shape(device_->strict ? max_rows_ : rows), device_->size.multiprocessors);
  return c;
}

bool Gemm::tuned(int64_t rows, GemmChoice* out) {
  if (device_->tuning == nullptr || device_->strict) return false;
  const TuningEntry* e = device_->tuning->find(shape(rows), precision_);
  if (e == nullptr) return false;
  const std::vector<GemmImpl> allowed = impls_for(precision_);
  if (std::find(allowed.begin(), allowed.end(), e->choice.impl) == allowed.end()) return false;
  if (!is_lt(e->choice.impl)) {
    *out = e->choice;
    return true;
  }
  if (!lt_possible()) return false;
  for (const GemmChoice& c : lt_candidates(e->choice.impl, e->choice.staged, rows, kMostLtCandidates)) {
    if (c.algo == e->choice.algo) {
      *out = c;
      return true;
    }
  }
  note("tuning: the library offers no such " + std::string(gemm_name(e->choice.impl)) + " algorithm");
  return false;
}

GemmChoice Gemm::choose(int64_t rows) {
  GemmChoice c;
  if (tuned(rows, &c)) return c;
  const GemmImpl impl = default_impl(shape(rows), precision_, lt_possible(), device_->strict);
  if (!is_lt(impl)) return own_choice(impl, rows);
  const std::string why = lt_refusal();
  const bool staged = lt_should_stage(impl);
  for (int attempt = 0; attempt < 2 && why.empty(); ++attempt) {
    const std::vector<GemmChoice> found = lt_candidates(impl, staged != (attempt == 1), rows, 1);
    if (!found.empty()) return found[0];
  }
  note(std::string(gemm_name(impl)) + ": " + (why.empty() ? "no algorithm" : why));
  return own_choice(default_impl(shape(rows), precision_, false, false), rows);
}

// Adjacent buckets with the same choice are one.
void Gemm::choose_all() {
  buckets_.clear();
  for (int64_t rows = 1;; rows = next_bucket(rows, max_rows_)) {
    const GemmChoice c = choose(rows);
    if (buckets_.empty() || !(buckets_.back().choice == c)) buckets_.push_back({rows, c});
    buckets_.back().rows = rows;
    if (rows == max_rows_) return;
  }
}

const Gemm::Bucket& Gemm::bucket_for(int64_t rows) const {
  const auto at = std::lower_bound(buckets_.begin(), buckets_.end(), rows,
                                   [](const Bucket& b, int64_t r) { return b.rows < r; });
  return at != buckets_.end() ? *at : buckets_.back();
}

std::string Gemm::report() const {
  std::string text;
  int64_t first = 1;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    const GemmImpl impl = buckets_[i].choice.impl;
    if (i + 1 < buckets_.size() && buckets_[i + 1].choice.impl == impl)
      continue;  // another tile or algorithm
    text += (text.empty() ? "" : ", ") + std::string(gemm_name(impl)) + " (rows " + std::to_string(first) +
            "-" + std::to_string(buckets_[i].rows) + ")";
    first = buckets_[i].rows + 1;
  }
  return text + note_;
}

size_t Gemm::scratch_bytes(int64_t rows) const {
  size_t most = 0;
  for (const Bucket& b : buckets_) {
    most = std::max(most, scratch_bytes(b.choice, std::min(b.rows, rows)));
    if (b.rows >= rows) break;
  }
  return most;
}

// ---- running

std::vector<GemmChoice> Gemm::candidates(int64_t rows) const {
  using cuda::GemmTile;
  std::vector<GemmChoice> all;
  for (const GemmImpl impl : impls_for(precision_)) {
    for (const bool staged : {false, true}) {
      const bool apart = !staged || (!lt_must_stage(impl) && in_ % 8 != 0);  // else it is the same
      if (!is_lt(impl) || !lt_possible() || !apart) continue;
      for (const GemmChoice& c : lt_candidates(impl, staged, rows, kMostLtCandidates)) all.push_back(c);
    }
    if (is_lt(impl)) continue;
    GemmChoice c;
    c.impl = impl;
    for (const GemmTile t : {GemmTile::kSmall, GemmTile::kMedium, GemmTile::kLarge}) {
      if (impl == GemmImpl::kOwnSimt && t != GemmTile::kMedium) continue;
      c.tile = t;
      all.push_back(c);
    }
  }
  return all;
}

int Gemm::run(const GemmChoice& choice, const kernels::DenseArgs& a, void* scratch, void* stream) const {
  if (is_lt(choice.impl)) {
    auto* memory = static_cast<char*>(scratch);
    return lt_product(choice, a, memory, stream) ? lt_finish(choice, a, memory, stream) : kNotTaken;
  }
  kernels::DenseArgs with = a;
  with.packed = const_cast<void*>(weights_);
  switch (choice.impl) {
    case GemmImpl::kOwnTf32:
      with.packed = const_cast<void*>(rounded_weights_);
      return cuda::dense_wmma(with, cuda::Product::kTf32, choice.tile, stream);
    case GemmImpl::kOwnTf32x3:
      return cuda::dense_wmma(with, cuda::Product::kTf32x3, choice.tile, stream);
    case GemmImpl::kOwnF16:
      return cuda::dense_wmma(with, cuda::Product::kF16, choice.tile, stream);
    case GemmImpl::kOwnBf16:
      return cuda::dense_wmma(with, cuda::Product::kBF16, choice.tile, stream);
    default:
      return cuda::dense(with, stream);
  }
}

int Gemm::start(const kernels::DenseArgs& a, void* scratch, void* stream) const {
  const int code = run(bucket_for(a.dst.rows).choice, a, scratch, stream);
  if (code != kNotTaken) return code;
  const GemmImpl own = default_impl(shape(a.dst.rows), precision_, false, false);
  return run(own_choice(own, a.dst.rows), a, scratch, stream);
}

}  // namespace dpi::backend
