// Ops that only move rows: Concat, View, BroadcastRows. Long runs go through memcpy, short ones, which a
// history has many of, through vectors: a call costs more than the copy.
#include <cstring>

#include <dpi/kernels/concat.hpp>
#include <dpi/kernels/view.hpp>

#include "kernels/cpu/simd/vec.hpp"
#include "kernels/cpu/tables.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

namespace {

constexpr int64_t kLongRun = 256;  // floats

void copy_run(float* dst, const float* src, int64_t n) {
  if (n < kLongRun)
    copy_floats(dst, src, n);
  else
    std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(float));
}

int64_t size_after(const Dims& d, int axis) {
  int64_t n = 1;
  for (int i = axis; i < d.rank; ++i) n *= d.d[i];
  return n;
}

/// Entry i of dst's axis is entry indices[i] of x's.
void pick(const ViewArgs& a) {
  const int axis = a.attrs.axis;
  const int64_t inner = size_after(a.x.dims, axis + 1);
  const int64_t from_n = a.x.dims.d[axis], to_n = a.dst.dims.d[axis];
  if (to_n * inner == 0) return;
  const int64_t outer = dims_size(a.dst.dims) / (to_n * inner);
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    for (int64_t o = 0; o < outer; ++o) {
      const float* src = row_of(a.x, r) + o * from_n * inner;
      float* dst = row_of(a.dst, r) + o * to_n * inner;
      if (inner == 1) {
        for (int64_t i = 0; i < to_n; ++i) dst[i] = src[a.attrs.indices[i]];
        continue;
      }
      for (int64_t i = 0; i < to_n; ++i) copy_run(dst + i * inner, src + a.attrs.indices[i] * inner, inner);
    }
  }
}

/// Where in a row of x the elements of a row of dst come from: axes of dst, steps in x.
struct Walk {
  int n_axes = 0;
  int64_t first = 0;
  int64_t extent[kMaxRank];
  int64_t step[kMaxRank];

  /// Axes of extent 1 are dropped, an axis that goes on where the one before it steps to is part of it.
  void add(int64_t n, int64_t by) {
    if (n == 1) return;
    if (n_axes > 0 && step[n_axes - 1] == by * n) {
      extent[n_axes - 1] *= n;
      step[n_axes - 1] = by;
      return;
    }
    extent[n_axes] = n;
    step[n_axes++] = by;
  }
};

/// The walk of every kind but kIndexSelect.
Walk walk_of(const ViewArgs& a) {
  const Dims &from = a.x.dims, &to = a.dst.dims;
  int64_t stride[kMaxRank] = {};  // once an op: the analyser does not know that both ranks fit
  for (int i = from.rank - 1; i >= 0; --i) stride[i] = i + 1 < from.rank ? stride[i + 1] * from.d[i + 1] : 1;
  Walk w;
  if (a.attrs.kind == ViewKind::kReshape) {
    w.add(dims_size(to), 1);
  } else if (a.attrs.kind == ViewKind::kTranspose) {
    for (int i = 0; i < to.rank; ++i) w.add(to.d[i], stride[a.attrs.dims.d[i]]);
  } else if (a.attrs.kind == ViewKind::kSlice) {
    w.first = a.attrs.begin * stride[a.attrs.axis];
    for (int i = 0; i < to.rank; ++i) w.add(to.d[i], stride[i]);
  } else {
    const int missing = to.rank - from.rank;
    for (int i = 0; i < to.rank; ++i)
      w.add(to.d[i], i < missing || from.d[i - missing] == 1 ? 0 : stride[i - missing]);
  }
  return w;
}

/// n elements of x, `step` apart.
void copy_apart(float* dst, const float* src, int64_t n, int64_t step) {
  if (step == 1) return copy_run(dst, src, n);
  if (step == 0) {
    const Vec v = Vec::all(*src);
    return for_vectors(n, [&](int64_t i, int64_t k) { store_n(dst + i, v, k); });
  }
  for (int64_t i = 0; i < n; ++i) dst[i] = src[i * step];
}

void copy_row(const Walk& w, const float* src, float* dst) {
  const int last = w.n_axes - 1;
  if (last < 0) {
    *dst = *src;
    return;
  }
  int64_t index[kMaxRank] = {};
  for (;;) {
    copy_apart(dst, src, w.extent[last], w.step[last]);
    dst += w.extent[last];
    int axis = last - 1;
    for (; axis >= 0; --axis) {
      src += w.step[axis];
      if (++index[axis] < w.extent[axis]) break;
      src -= w.step[axis] * w.extent[axis];
      index[axis] = 0;
    }
    if (axis < 0) return;
  }
}

}  // namespace

void concat(const ConcatArgs& a) {
  const int axis = a.attrs.axis;
  int64_t outer = 1;
  for (int i = 0; i < axis; ++i) outer *= a.dst.dims.d[i];
  const int64_t to_run = size_after(a.dst.dims, axis);
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    float* dst = row_of(a.dst, r);
    for (int64_t i = 0; i < a.n_inputs; ++i) {
      const Tensor& x = a.inputs[i].tensor;
      const int64_t run = size_after(x.dims, axis);
      const float* src = row_of(x, r);
      for (int64_t o = 0; o < outer; ++o) copy_run(dst + o * to_run, src + o * run, run);
      dst += run;
    }
  }
}

void view(const ViewArgs& a) {
  if (dims_size(a.dst.dims) == 0) return;
  if (a.attrs.kind == ViewKind::kIndexSelect) {
    pick(a);
    return;
  }
  const Walk w = walk_of(a);
  for (int64_t r = 0; r < a.dst.rows; ++r) copy_row(w, row_of(a.x, r) + w.first, row_of(a.dst, r));
}

void broadcast_rows(const BroadcastRowsArgs& a) {
  const int64_t n = dims_size(a.dst.dims);
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    copy_run(row_of(a.dst, r), row_of(a.x, a.row_map == nullptr ? r : a.row_map[r]), n);
  }
}

}  // namespace dpi::kernels::cpu::DPI_ISA
