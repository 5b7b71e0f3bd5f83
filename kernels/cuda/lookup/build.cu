// The records of the fused lookup. Host code only; a .cu because it shares the record with the kernels.
#include "kernels/cuda/lookup/build.hpp"

namespace dpi::kernels::cuda {
namespace {

constexpr int64_t kInt32 = 0x7fffffff;

bool small(int64_t v) { return v >= 0 && v <= kInt32; }

int64_t bytes_of_type(DType t) { return dtype_bytes(t); }

bool aligned(const void* p, int64_t step, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(p) % static_cast<uintptr_t>(bytes) == 0 && step % bytes == 0;
}

}  // namespace

int32_t lookup_class_width(const MultiLookupArgs& a) {
  if (a.attrs.fm_channel >= 0 && a.attrs.fm_dim > 0) return a.attrs.fm_dim;
  int32_t best = 0;
  int64_t best_columns = 0;
  for (int32_t i = 0; i < a.attrs.n_fields; ++i) {
    const int32_t width = a.tables[a.attrs.fields[i].table].dim;
    int64_t columns = 0;
    for (int32_t k = 0; k < a.attrs.n_fields; ++k) {
      const LookupField& f = a.attrs.fields[k];
      if (a.tables[f.table].dim == width && is_one_hot(a, f.embed, f.input)) columns += width;
    }
    if (columns > best_columns || (columns == best_columns && width < best)) {
      best = width;
      best_columns = columns;
    }
  }
  return best;
}

LookupBuild::LookupBuild(const MultiLookupArgs& a, int32_t vector, bool sums)
    : a_(a),
      vector_(vector),
      sums_(sums),
      channels_(a.attrs.n_channels > 0 && a.chan.data != nullptr),
      class_width_(lookup_class_width(a)) {}

bool LookupBuild::fits() const {
  const auto field_fits = [&](const EmbedAttrs& e, int32_t input, int32_t table) {
    const TableView& t = a_.tables[table];
    return small(t.row_bytes) && small(t.scale_stride) && t.rows >= 0 && small(e.max_len) &&
           small(a_.inputs[input].bags.stride);
  };
  bool good = small(a_.rows);
  for (int32_t i = 0; i < a_.attrs.n_fields; ++i) {
    const LookupField& f = a_.attrs.fields[i];
    good = good && field_fits(f.embed, f.input, f.table);
  }
  for (int32_t i = 0; i < a_.attrs.n_scalars; ++i) {
    const ScalarField& f = a_.attrs.scalars[i];
    good = good && field_fits(f.embed, f.input, f.table);
  }
  for (int32_t i = 0; i < a_.attrs.n_numerics; ++i)
    good = good && small(a_.inputs[a_.attrs.numerics[i].input].tensor.row_stride);
  return good;
}

int32_t LookupBuild::count_of(RecordRole role) const {
  switch (role) {
    case RecordRole::kCopy:
      return a_.attrs.n_fields + a_.attrs.n_numerics;
    case RecordRole::kNumerics:
      return a_.attrs.n_numerics;
    case RecordRole::kScalars:
    case RecordRole::kScalarBags:
      return channels_ ? a_.attrs.n_scalars : 0;
    default:
      return a_.attrs.n_fields;
  }
}

bool LookupBuild::make(RecordRole role, int32_t i, Record* r) const {
  if (role == RecordRole::kScalars || role == RecordRole::kScalarBags)
    return make_scalar(role, a_.attrs.scalars[i], r);
  if (role == RecordRole::kNumerics) return make_numeric(role, a_.attrs.numerics[i], r);
  if (i < a_.attrs.n_fields) return make_field(role, a_.attrs.fields[i], r);
  return make_numeric(role, a_.attrs.numerics[i - a_.attrs.n_fields], r);
}

bool LookupBuild::make_field(RecordRole role, const LookupField& f, Record* r) const {
  const TableView& t = a_.tables[f.table];
  const bool one_hot = is_one_hot(a_, f.embed, f.input);
  const bool summed = f.fm && a_.attrs.fm_channel >= 0 && channels_;
  const bool in_rows = summed || (one_hot && in_class(t.dim) && written(f.out_col));
  const bool own_pass = in_rows && sums_;  // the `rows` blocks write it as well
  const bool copied = written(f.out_col) && (one_hot ? !own_pass : !summed);
  bool wanted = false;
  int32_t out_col = f.out_col;
  if (role == RecordRole::kCopy) wanted = one_hot && copied;
  if (role == RecordRole::kBags) wanted = !one_hot && copied;
  if (role == RecordRole::kVectors) wanted = one_hot && in_rows && (summed || sums_);
  if (role == RecordRole::kVectorBags) wanted = !one_hot && summed;
  if (!wanted) return false;
  if (role == RecordRole::kVectors && !sums_) out_col = -1;
  set_table(t, vector_, r);
  set_bags(f.embed, f.input, r);
  set_out(out_col, r);
  if (role == RecordRole::kVectors || role == RecordRole::kVectorBags) r->fm = summed ? 1 : 0;
  return true;
}

bool LookupBuild::make_numeric(RecordRole role, const NumericField& f, Record* r) const {
  const bool summed = f.fm && a_.attrs.fm_channel >= 0 && channels_;
  const bool weighted = f.coef >= 0 && channels_;
  const bool fits_rows = sums_ && (f.vec >= 0 ? f.dim <= class_width_ : f.dim == 1);
  const bool in_rows = summed || weighted || (fits_rows && written(f.out_col));
  const bool copied = written(f.out_col) && !(in_rows && fits_rows);
  if (role == RecordRole::kCopy ? !copied : !in_rows) return false;
  const Tensor& x = a_.inputs[f.input].tensor;
  r->base = reinterpret_cast<const unsigned char*>(x.data);
  r->stride = static_cast<int32_t>(x.row_stride);
  r->scale = f.vec >= 0 ? a_.numeric_vec.data + f.vec : nullptr;
  r->weights = weighted ? a_.numeric_coef.data + f.coef : nullptr;
  r->width = f.dim;
  r->numeric = 1;
  r->fm = role == RecordRole::kNumerics && summed ? 1 : 0;
  r->input = f.input;
  set_out(role == RecordRole::kCopy || fits_rows ? f.out_col : -1, r);
  return true;
}

bool LookupBuild::make_scalar(RecordRole role, const ScalarField& f, Record* r) const {
  const bool one_hot = is_one_hot(a_, f.embed, f.input);
  if (one_hot != (role == RecordRole::kScalars)) return false;
  set_table(a_.tables[f.table], one_hot ? 1 : vector_, r);
  set_bags(f.embed, f.input, r);
  r->width = f.count;
  r->first_channel = f.first_channel;
  return true;
}

void LookupBuild::set_table(const TableView& t, int32_t vector, Record* r) const {
  r->base = static_cast<const unsigned char*>(t.base);
  r->scale = t.scale;
  r->nonzero = t.nonzero;
  r->cache = t.cache;
  r->rows = static_cast<uint32_t>(t.rows < kInt32 ? t.rows : kInt32);
  r->row_bytes = static_cast<uint32_t>(t.row_bytes);
  r->scale_stride = static_cast<int32_t>(t.scale_stride);
  r->width = t.dim;
  r->dim = t.dim;
  r->type = static_cast<uint8_t>(t.dtype);
  int64_t bytes = vector * bytes_of_type(t.dtype);
  bytes = bytes < 4 ? 4 : bytes < 16 ? bytes : 16;
  // One by one: scalars of 16 or 8 bits, and elements that share a byte or have their scale behind them.
  const bool one_by_one = (vector == 1 && t.dtype != DType::kF32) || row_form(t.dtype).whole;
  if (!one_by_one && aligned(t.base, t.row_bytes, bytes)) r->wide_rows = r->rows;
}

void LookupBuild::set_bags(const EmbedAttrs& e, int32_t input, Record* r) const {
  const Bags& b = a_.inputs[input].bags;
  r->ids = b.ids;
  r->stride = static_cast<int32_t>(b.stride);
  r->offsets = b.offsets;
  r->weights = b.weights;
  r->pooling = static_cast<uint8_t>(e.pooling);
  r->mask = static_cast<uint8_t>(e.mask);
  r->pad_id = e.pad_id;
  r->max_len = static_cast<int32_t>(e.max_len);
  r->eps = e.eps;
  r->empty = e.empty;
  r->input = input;
}

void LookupBuild::set_out(int32_t out_col, Record* r) const {
  if (!written(out_col)) return;
  r->out_col = out_col;
  const int64_t bytes = bytes_of_type(a_.out.dtype);
  r->wide_store = aligned(a_.out.data, a_.out.row_stride * bytes, 16) && out_col * bytes % 16 == 0 ? 1 : 0;
}

int32_t LookupBuild::units_of(RecordRole role, const Record& r) const {
  if (role == RecordRole::kCopy) return (r.width + vector_ - 1) / vector_;
  if (role != RecordRole::kBags) return 0;
  const int64_t groups = kWarp >> lanes_for(vector_, r.width);
  return static_cast<int32_t>((a_.rows + groups - 1) / groups);
}

}  // namespace dpi::kernels::cuda
