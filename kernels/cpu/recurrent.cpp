// Recurrent over packed weights. Rows go in blocks, the longest history first, so that at step s the rows
// which have one are the first of the block: W_h h of all of them is one product, and a position that does
// not count costs nothing. The input products of a chunk of steps are one product before its recurrence.
//
// A row's bits depend neither on its batch nor on its place there: every sum is gemm's own, in its order.
#include <dpi/kernels/recurrent.hpp>

#include "kernels/cpu/simd/math.hpp"
#include "kernels/cpu/tables.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

namespace {

constexpr int64_t kBlockRows = 16;
constexpr int64_t kChunk = 256;  // steps of all rows of a block together

/// Sizes of one op, and where a block's values lie in the scratch.
struct Shape {
  int64_t steps, in, m, chunk;
};

Shape shape_of(int64_t steps, int64_t in, int64_t m) {
  return {steps, in, m, min_of<int64_t>(kChunk, kBlockRows * max_of<int64_t>(steps, 1))};
}

struct Scratch {
  float* h;  // [kBlockRows, m]: states, in the block's order
  float* u;  // [kBlockRows, 3m]: W_h h + b_h, then r and z in the places of their sums
  float* x;  // [chunk, in]: inputs of the chunk, step by step
  float* g;  // [chunk, 3m]: W_i x + b_i
};

Scratch scratch_of(void* memory, const Shape& s) {
  float* const at = static_cast<float*>(memory);
  float* const x = at + 4 * kBlockRows * s.m;
  return {at, at + kBlockRows * s.m, x, x + s.chunk * s.in};
}

/// Rows of the batch by the number of their positions that count, and how far each has come.
struct Block {
  int64_t n;
  int64_t row[kBlockRows];
  int64_t count[kBlockRows];
  int64_t next[kBlockRows];  // the position from which the row's next step is looked for
};

int64_t positions_of(const float* mask, int64_t steps) {
  int64_t n = 0;
  for (int64_t t = 0; t < steps; ++t) n += mask[t] != 0 ? 1 : 0;
  return n;
}

void fill_block(const RecurrentArgs& a, int64_t first, int64_t steps, Block& b) {
  b.n = min_of(kBlockRows, a.dst.rows - first);
  for (int64_t i = 0; i < b.n; ++i) {
    const int64_t count = positions_of(row_of(a.mask, first + i), steps);
    int64_t to = i;
    for (; to > 0 && b.count[to - 1] < count; --to) {
      b.row[to] = b.row[to - 1];
      b.count[to] = b.count[to - 1];
    }
    b.row[to] = first + i;
    b.count[to] = count;
    b.next[i] = 0;
  }
}

/// Rows that have a step `s`.
int64_t active_at(const Block& b, int64_t s) {
  int64_t n = b.n;
  while (n > 0 && b.count[n - 1] <= s) --n;
  return n;
}

/// Inputs of steps [s, ..) as far as the chunk has room; at[i] is the place in its history of the chunk's
/// i-th. Returns the step after the last.
int64_t gather(const RecurrentArgs& a, const Shape& shape, int64_t s, Block& b, float* x, int32_t* at) {
  int64_t n = 0;
  for (;; ++s) {
    const int64_t active = active_at(b, s);
    if (active == 0 || n + active > shape.chunk) return s;
    for (int64_t i = 0; i < active; ++i, ++n) {
      const float* mask = row_of(a.mask, b.row[i]);
      int64_t t = b.next[i];
      while (mask[t] == 0) ++t;
      b.next[i] = t + 1;
      at[n] = static_cast<int32_t>(t);
      copy_floats(x + n * shape.in, row_of(a.x, b.row[i]) + t * shape.in, shape.in);
    }
  }
}

void product(const float* x, int64_t rows, int64_t depth, int64_t ldx, const float* packed, const float* bias,
             int64_t n, int64_t ldd, float* dst) {
  GemmCall c;
  c.x = x;
  c.packed = packed;
  c.bias = bias;
  c.dst = dst;
  c.m = rows;
  c.n = n;
  c.k = depth;
  c.ldx = ldx;
  c.ldd = ldd;
  gemm(c);
}

/// r and z of one row, and with ResetGate::kBefore r h in the place of the input's part of r.
void gates(bool before, int64_t m, const float* h, float* g, float* u) {
  for_vectors(m, [&](int64_t j, int64_t n) {
    const Vec r = sigmoid(load_n(g + j, n) + load_n(u + j, n));
    store_n(u + m + j, sigmoid(load_n(g + m + j, n) + load_n(u + m + j, n)), n);
    before ? store_n(g + j, r * load_n(h + j, n), n) : store_n(u + j, r, n);
  });
}

/// The new state's factors for h (keep) and for the candidate (take).
struct Parts {
  Vec keep, take;
};

DPI_INLINE Parts parts_of(RecurrentKind kind, Vec z, Vec att) {
  const Vec one = Vec::all(1.0f);
  switch (kind) {
    case RecurrentKind::kGru:
      return {z, one - z};
    case RecurrentKind::kAgru:
      return {one - att, att};
    case RecurrentKind::kAugru:
      return {one - att * z, att * z};
    case RecurrentKind::kVecAtt:
      return {(one - att) * z, one - (one - att) * z};
  }
  return {one, one};
}

void update(const RecurrentAttrs& attrs, int64_t m, float att, const float* g, const float* u, float* h) {
  const bool before = attrs.reset == ResetGate::kBefore;
  for_vectors(m, [&](int64_t j, int64_t n) {
    const Vec inner = load_n(u + 2 * m + j, n);
    const Vec sum =
        before ? load_n(g + 2 * m + j, n) + inner : fma(load_n(u + j, n), inner, load_n(g + 2 * m + j, n));
    const Parts p = parts_of(attrs.kind, load_n(u + m + j, n), Vec::all(att));
    store_n(h + j, fma(p.keep, load_n(h + j, n), p.take * tanh(sum)), n);
  });
}

/// One step of the block's first `active` rows; g, at: theirs.
void step(const RecurrentArgs& a, const float* hidden, const Shape& s, const Block& b, int64_t active,
          const Scratch& w, float* g, const int32_t* at) {
  const int64_t m = s.m;
  const bool before = a.attrs.reset == ResetGate::kBefore;
  product(w.h, active, m, m, hidden, a.b_hidden.data, before ? 2 * m : 3 * m, 3 * m, w.u);
  for (int64_t i = 0; i < active; ++i) gates(before, m, w.h + i * m, g + i * 3 * m, w.u + i * 3 * m);
  if (before) {
    const float* const bias = a.b_hidden.data == nullptr ? nullptr : a.b_hidden.data + 2 * m;
    product(g, active, m, 3 * m, hidden + gemm_packed_floats(2 * m, m), bias, m, 3 * m, w.u + 2 * m);
  }
  for (int64_t i = 0; i < active; ++i) {
    const float att = a.att.data == nullptr ? 0.0f : row_of(a.att, b.row[i])[at[i]];
    update(a.attrs, m, att, g + i * 3 * m, w.u + i * 3 * m, w.h + i * m);
    if (a.attrs.output == RecurrentOutput::kAll)
      copy_floats(row_of(a.dst, b.row[i]) + at[i] * m, w.h + i * m, m);
  }
}

void clear(float* dst, int64_t n) {
  for_vectors(n, [&](int64_t i, int64_t k) { store_n(dst + i, Vec::zero(), k); });
}

void run_block(const RecurrentArgs& a, const RecurrentWeights& weights, const Shape& shape, Block& b) {
  const Scratch w = scratch_of(a.scratch, shape);
  int32_t at[kChunk];
  clear(w.h, b.n * shape.m);
  for (int64_t s = 0; s < b.count[0];) {
    const int64_t end = gather(a, shape, s, b, w.x, at);
    int64_t n = 0;
    for (int64_t i = s; i < end; ++i) n += active_at(b, i);
    product(w.x, n, shape.in, shape.in, weights.input, a.b_input.data, 3 * shape.m, 3 * shape.m, w.g);
    for (n = 0; s < end; ++s) {
      const int64_t active = active_at(b, s);
      step(a, weights.hidden, shape, b, active, w, w.g + n * 3 * shape.m, at + n);
      n += active;
    }
  }
}

}  // namespace

int64_t recurrent_scratch_floats(int64_t steps, int64_t in, int64_t m) {
  const Shape s = shape_of(steps, in, m);
  return 4 * kBlockRows * m + s.chunk * (in + 3 * m);
}

void recurrent_packed(const RecurrentArgs& a, const RecurrentWeights& weights) {
  const bool all = a.attrs.output == RecurrentOutput::kAll;
  const Shape shape = shape_of(a.x.dims.d[0], a.x.dims.d[1], a.dst.dims.d[a.dst.dims.rank - 1]);
  Block b;
  for (int64_t first = 0; first < a.dst.rows; first += kBlockRows) {
    fill_block(a, first, shape.steps, b);
    for (int64_t i = 0; all && i < b.n; ++i) clear(row_of(a.dst, b.row[i]), shape.steps * shape.m);
    run_block(a, weights, shape, b);
    const float* const h = static_cast<const float*>(a.scratch);
    for (int64_t i = 0; !all && i < b.n; ++i) copy_floats(row_of(a.dst, b.row[i]), h + i * shape.m, shape.m);
  }
}

}  // namespace dpi::kernels::cpu::DPI_ISA
