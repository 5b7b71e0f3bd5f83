// TopK and Gather. The k best entries are kept in dst, in order, while a slice is read once: behind the first
// k of them most entries are passed over, a vector at a time. Gather copies runs where one position serves a
// whole run, as when vectors are picked by their places.
#include <dpi/kernels/gather.hpp>
#include <dpi/kernels/top_k.hpp>

#include "kernels/cpu/simd/vec.hpp"
#include "kernels/cpu/tables.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

namespace {

int64_t product(const Dims& d, int begin, int end) {
  int64_t n = 1;
  for (int i = begin; i < end; ++i) n *= d.d[i];
  return n;
}

/// Entries `step` floats apart, of x and, k of them, of dst.
struct Slice {
  const float* x;
  float* dst;
  int64_t n, k, step;
  bool largest;

  DPI_INLINE float kept(int64_t j) const { return x[static_cast<int64_t>(dst[j * step]) * step]; }
};

DPI_INLINE bool is_above(float a, float b) { return a != a ? b == b : a > b; }  // a NaN is above all numbers

/// True if an entry of value a goes before an earlier entry of value b.
DPI_INLINE bool overtakes(const Slice& s, float a, float b) {
  return s.largest ? is_above(a, b) : is_above(b, a);
}

/// The next entry from i on that overtakes the value; n: none.
int64_t next_entry(const Slice& s, int64_t i, float value) {
  const Vec v = Vec::all(value);
  while (i < s.n) {
    if (s.step == 1 && i + Vec::W <= s.n) {
      const Vec x = Vec::load(s.x + i);  // a NaN is no value's equal, so it is looked at
      if (all((s.largest ? max(v, x) : min(v, x)) == v)) {
        i += Vec::W;
        continue;
      }
    }
    const int64_t end = s.step == 1 ? min_of(s.n, i + Vec::W) : s.n;
    for (; i < end; ++i) {
      if (overtakes(s, s.x[i * s.step], value)) return i;
    }
  }
  return s.n;
}

void order(const Slice& s) {
  int64_t kept = 0;
  for (int64_t i = 0; i < s.n; ++i) {
    if (kept == s.k) {
      i = next_entry(s, i, s.kept(kept - 1));
      if (i == s.n) return;
      --kept;  // the last one makes room
    }
    const float a = s.x[i * s.step];
    int64_t j = kept++;
    for (; j > 0 && overtakes(s, a, s.kept(j - 1)); --j) s.dst[j * s.step] = s.dst[(j - 1) * s.step];
    s.dst[j * s.step] = static_cast<float>(i);
  }
}

/// The axes of dst, those that go on alike merged: their steps in x, 0 along the axis of the positions, and
/// in the positions.
struct Walk {
  int n_axes = 0;
  int64_t extent[kMaxRank];
  int64_t x[kMaxRank];
  int64_t index[kMaxRank];

  void add(int64_t n, int64_t in_x, int64_t in_index) {
    if (n == 1) return;
    const int last = n_axes - 1;
    const bool goes_on = last >= 0 && x[last] == in_x * n && index[last] == in_index * n;
    const int to = goes_on ? last : n_axes++;
    extent[to] = goes_on ? extent[to] * n : n;
    x[to] = in_x;
    index[to] = in_index;
  }
};

Walk walk_of(const GatherArgs& a) {
  const Dims &dims = a.dst.dims, &x = a.x.dims, &index = a.index.dims;
  Walk w;
  for (int i = 0; i < dims.rank; ++i) {
    const bool still = i == a.attrs.axis || x.d[i] == 1;
    w.add(dims.d[i], still ? 0 : product(x, i + 1, x.rank),
          index.d[i] == 1 ? 0 : product(index, i + 1, index.rank));
  }
  return w;
}

/// entry_of (gather.hpp), of this set.
DPI_INLINE int64_t entry_at(float p, int64_t n) {
  if (p != p) return -1;
  if (!(p >= 1)) return 0;
  return p < static_cast<float>(n) ? static_cast<int64_t>(p) : n - 1;
}

/// The axis of the positions in x.
struct Axis {
  int64_t n, step;
};

/// One position for n elements, which lie `step` apart.
void pick_run(const Axis& axis, const float* x, float position, int64_t n, int64_t step, float* dst) {
  const int64_t entry = entry_at(position, axis.n);
  if (entry >= 0 && step == 1) return copy_floats(dst, x + entry * axis.step, n);
  for (int64_t i = 0; i < n; ++i) dst[i] = entry < 0 ? position : x[i * step + entry * axis.step];
}

void pick_each(const Axis& axis, const float* x, const float* index, int64_t n, int64_t x_step,
               int64_t index_step, float* dst) {
  for (int64_t i = 0; i < n; ++i) {
    const float position = index[i * index_step];
    const int64_t entry = entry_at(position, axis.n);
    dst[i] = entry < 0 ? position : x[i * x_step + entry * axis.step];
  }
}

void gather_row(const Walk& w, const Axis& axis, const float* x, const float* index, float* dst) {
  const int last = w.n_axes - 1;
  if (last < 0) return pick_run(axis, x, *index, 1, 0, dst);
  const int64_t n = w.extent[last];
  int64_t at[kMaxRank] = {};
  for (;;) {
    if (w.index[last] == 0)
      pick_run(axis, x, *index, n, w.x[last], dst);
    else
      pick_each(axis, x, index, n, w.x[last], w.index[last], dst);
    dst += n;
    int i = last - 1;
    for (; i >= 0; --i) {
      x += w.x[i];
      index += w.index[i];
      if (++at[i] < w.extent[i]) break;
      x -= w.x[i] * w.extent[i];
      index -= w.index[i] * w.extent[i];
      at[i] = 0;
    }
    if (i < 0) return;
  }
}

}  // namespace

void top_k(const TopKArgs& a) {
  const int axis = a.attrs.axis;
  const int64_t n = a.x.dims.d[axis], k = a.attrs.k;
  const int64_t outer = product(a.x.dims, 0, axis), inner = product(a.x.dims, axis + 1, a.x.dims.rank);
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t b = 0; b < inner; ++b)
        order({row_of(a.x, r) + o * n * inner + b, row_of(a.dst, r) + o * k * inner + b, n, k, inner,
               a.attrs.largest != 0});
    }
  }
}

void gather(const GatherArgs& a) {
  if (dims_size(a.dst.dims) == 0) return;
  const int axis = a.attrs.axis;
  const Axis of{a.x.dims.d[axis], product(a.x.dims, axis + 1, a.x.dims.rank)};
  const Walk w = walk_of(a);
  for (int64_t r = 0; r < a.dst.rows; ++r)
    gather_row(w, of, row_of(a.x, r), row_of(a.index, r), row_of(a.dst, r));
}

}  // namespace dpi::kernels::cpu::DPI_ISA
