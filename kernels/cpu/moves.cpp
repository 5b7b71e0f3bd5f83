// Ops that only move rows (Concat, View, BroadcastRows), by memcpy of whole runs, and those that go to the
// reference as they are. Compiled once, for every processor: the C library's memcpy knows the processor.
#include <cstring>

#include <dpi/kernels/concat.hpp>
#include <dpi/kernels/mask.hpp>
#include <dpi/kernels/recurrent.hpp>
#include <dpi/kernels/softmax.hpp>
#include <dpi/kernels/view.hpp>

#include "kernels/cpu/tables.hpp"

namespace dpi::kernels::cpu {

namespace {

void copy_run(float* dst, const float* src, int64_t n) {
  if (n > 0) std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(float));
}

int64_t size_after(const Dims& d, int axis) {
  int64_t n = 1;
  for (int i = axis; i < d.rank; ++i) n *= d.d[i];
  return n;
}

/// Entries of one axis: dst's entry i is x's entry begin + i, or indices[i].
void pick(const ViewArgs& a) {
  const int axis = a.attrs.axis;
  const int64_t inner = size_after(a.x.dims, axis + 1);
  const int64_t from_n = a.x.dims.d[axis], to_n = a.dst.dims.d[axis];
  const int64_t to_size = a.dst.dims.size();
  const int64_t outer = to_n * inner == 0 ? 0 : to_size / (to_n * inner);
  const bool slice = a.attrs.kind == ViewKind::kSlice;
  const int64_t run = slice ? to_n * inner : inner;
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    for (int64_t o = 0; o < outer; ++o) {
      const float* src = a.x.row(r) + o * from_n * inner;
      float* dst = a.dst.row(r) + o * to_n * inner;
      for (int64_t i = 0; i < (slice ? 1 : to_n); ++i) {
        const int64_t from = slice ? a.attrs.begin : a.attrs.indices[i];
        copy_run(dst + i * run, src + from * inner, run);
      }
    }
  }
}

}  // namespace

bool softmax_is_plain(const SoftmaxArgs& a) {
  if (a.attrs.axis != a.x.dims.rank - 1) return false;
  return a.attrs.mask_mode == SoftmaxMask::kNone || a.mask.dims == a.x.dims;
}

void concat(const ConcatArgs& a) {
  const int axis = a.attrs.axis;
  int64_t outer = 1;
  for (int i = 0; i < axis; ++i) outer *= a.dst.dims.d[i];
  const int64_t to_run = size_after(a.dst.dims, axis);
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    float* dst = a.dst.row(r);
    for (int64_t i = 0; i < a.n_inputs; ++i) {
      const Tensor& x = a.inputs[i].tensor;
      const int64_t run = size_after(x.dims, axis);
      for (int64_t o = 0; o < outer; ++o) copy_run(dst + o * to_run, x.row(r) + o * run, run);
      dst += run;
    }
  }
}

void view(const ViewArgs& a) {
  if (a.attrs.kind == ViewKind::kReshape) {
    for (int64_t r = 0; r < a.dst.rows; ++r) copy_run(a.dst.row(r), a.x.row(r), a.dst.dims.size());
    return;
  }
  const bool picks = a.attrs.kind == ViewKind::kSlice || a.attrs.kind == ViewKind::kIndexSelect;
  picks ? pick(a) : ref::view(a);
}

void broadcast_rows(const BroadcastRowsArgs& a) {
  const int64_t n = a.dst.dims.size();
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    copy_run(a.dst.row(r), a.x.row(a.row_map == nullptr ? r : a.row_map[r]), n);
  }
}

void mask(const MaskArgs& a) { ref::mask(a); }
void recurrent(const RecurrentArgs& a) { ref::recurrent(a); }

}  // namespace dpi::kernels::cpu
