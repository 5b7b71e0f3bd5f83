// Elementwise, and Unary, Binary and Where as programs of one step. Rows and axes of all operands form one
// loop nest; axes that every operand steps through alike are merged, so that the innermost runs are long;
// runs are cut into chunks whose intermediate values stay in the first-level cache. Where some positions do
// not count, each row is a few runs of those that do.
#include <cstring>

#include <dpi/kernels/elementwise.hpp>

#include "kernels/cpu/spans.hpp"
#include "kernels/cpu/tables.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

namespace {

constexpr int64_t kMostChunk = 256;
constexpr int64_t kShortRun = 128;     // from here on a call a run costs little beside it
constexpr int64_t kWorkFloats = 1024;  // of all steps' intermediate values; on the stack, so small
constexpr int kMaxParams = 3 * kMaxElementwiseSteps;
constexpr int kMaxOperands = kMaxElementwiseInputs + kMaxParams + 1;
constexpr int kMaxAxes = kMaxRank + 1;

/// Operand 0 is dst, then the inputs, then the steps' parameters (three places per step). stride[a]: floats
/// per step of axis a.
struct Nest {
  int64_t extent[kMaxAxes];
  int64_t stride[kMaxOperands][kMaxAxes];
  float* data[kMaxOperands];
  int n_axes = 0;
  int n_operands = 0;
};

void add_operand(Nest& nest, float* data, const Dims& dims, int64_t row_stride) {
  const int id = nest.n_operands++;
  nest.data[id] = data;
  nest.stride[id][0] = row_stride;
  const int inner = nest.n_axes - 1;
  int64_t step = 1;
  for (int a = 0; a < inner; ++a) {  // a counts from the last axis
    const int64_t extent = a < dims.rank ? dims.d[dims.rank - 1 - a] : 1;
    nest.stride[id][inner - a] = extent == 1 ? 0 : step;
    step *= extent;
  }
}

bool mergeable(const Nest& nest, int outer, int inner) {
  for (int i = 0; i < nest.n_operands; ++i) {
    if (nest.stride[i][outer] != nest.stride[i][inner] * nest.extent[inner]) return false;
  }
  return true;
}

bool runs_along(const Nest& nest, int axis) {
  for (int i = 0; i < nest.n_operands; ++i) {
    if (nest.stride[i][axis] != 1 && (nest.stride[i][axis] != 0 || i == 0)) return false;
  }
  return true;
}

void move_axis(Nest& nest, int to, int from) {
  nest.extent[to] = nest.extent[from];
  for (int i = 0; i < nest.n_operands; ++i) nest.stride[i][to] = nest.stride[i][from];
}

/// Drops axes of extent 1, merges neighbours, and makes sure that the last axis has steps of 0 or 1 only.
void simplify(Nest& nest) {
  int kept = 0;
  for (int a = 0; a < nest.n_axes; ++a) {
    if (nest.extent[a] == 1) continue;
    move_axis(nest, kept, a);
    if (kept > 0 && mergeable(nest, kept - 1, kept)) {
      const int64_t outer = nest.extent[kept - 1];
      move_axis(nest, kept - 1, kept);
      nest.extent[kept - 1] *= outer;
      --kept;
    }
    ++kept;
  }
  nest.n_axes = kept;
  if (kept > 0 && runs_along(nest, kept - 1)) return;
  nest.extent[kept] = 1;
  for (int i = 0; i < nest.n_operands; ++i) nest.stride[i][kept] = i == 0 ? 1 : 0;
  nest.n_axes = kept + 1;
}

void build_nest(const ElementwiseArgs& a, Nest& nest) {
  nest.n_axes = a.dst.dims.rank + 1;
  nest.extent[0] = a.dst.rows;
  for (int i = 0; i < a.dst.dims.rank; ++i) nest.extent[i + 1] = a.dst.dims.d[i];
  add_operand(nest, a.dst.data, a.dst.dims, a.dst.row_stride);
  for (int i = 0; i < a.attrs.n_inputs; ++i) {
    const Tensor& t = a.inputs[i].tensor;
    add_operand(nest, t.data, t.dims, t.row_stride);
  }
  for (int s = 0; s < a.attrs.n_steps; ++s) {
    const ElementwiseStep& step = a.attrs.steps[s];
    for (int k = 0; k < 3; ++k) {
      const bool present = step.param >= 0 && k < step.n_params;
      // A step with a parameter has `params`: the op's check counts them.
      // NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker)
      const Param p = present ? a.params[step.param + k] : Param{};
      Dims last;
      last.rank = 1;
      last.d[0] = p.data == nullptr ? 1 : dims_size(p.dims);
      add_operand(nest, const_cast<float*>(p.data), last, 0);
    }
  }
  simplify(nest);
}

/// Elements of a chunk, in whole vectors: every step but the last keeps so many.
int64_t chunk_of(const ElementwiseAttrs& attrs) {
  const int64_t kept = attrs.n_steps > 1 ? attrs.n_steps - 1 : 1;
  return min_of(kMostChunk, kWorkFloats / kept / 16 * 16);
}

/// One chunk of n elements: at[i] is the place of operand i.
void run_chunk(const ElementwiseAttrs& attrs, const Nest& nest, float* const* at, int64_t n) {
  static_assert(kWorkFloats / (kMaxElementwiseSteps - 1) >= 16);
  alignas(64) float work[kWorkFloats];
  const int64_t chunk = chunk_of(attrs);
  Span reg[kMaxElementwiseInputs + kMaxElementwiseSteps];
  const int last_axis = nest.n_axes - 1;
  for (int i = 0; i < attrs.n_inputs; ++i) reg[i] = {at[1 + i], nest.stride[1 + i][last_axis]};
  for (int s = 0; s < attrs.n_steps; ++s) {
    const ElementwiseStep& step = attrs.steps[s];
    // build_nest adds the result as operand 0, so at[0] is set.
    // NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign)
    float* out = s + 1 == attrs.n_steps ? at[0] : work + s * chunk;
    if (step.kind == StepKind::kBinary) {
      binary_span(step.binary, reg[step.x], reg[step.y], out, n);
    } else if (step.kind == StepKind::kWhere) {
      // x, y and z name inputs or earlier steps (the op's check), so these registers are set.
      // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage)
      where_span(reg[step.x], reg[step.y], reg[step.z], out, n);
    } else {
      SpanUnary f{step.unary, {}};
      for (int k = 0; k < 3; ++k) {
        const int id = 1 + attrs.n_inputs + 3 * s + k;
        f.p[k] = {at[id], nest.stride[id][last_axis]};
      }
      unary_span(f, reg[step.x], out, n);
    }
    reg[attrs.n_inputs + s] = {out, 1};
  }
}

/// `count` runs of n elements. What follows an operand's run is `next` floats behind it.
struct Runs {
  float* dst;
  Span x, y;
  int64_t dst_next, x_next, y_next;
  int64_t count, n;
};

template <class F>
DPI_INLINE void zip_runs(const Runs& r, F f) {
  for (int64_t c = 0; c < r.count; ++c) {
    const Span x{r.x.data + c * r.x_next, r.x.step}, y{r.y.data + c * r.y_next, r.y.step};
    float* const dst = r.dst + c * r.dst_next;
    for_vectors(
        r.n, [&](int64_t i, int64_t k) { store_n(dst + i, f(load_span(x, i, k), load_span(y, i, k)), k); });
  }
}

/// True if cheap beside a call of run_chunk: an outer product of short vectors is made of such runs.
bool is_light(const ElementwiseAttrs& attrs) {
  if (attrs.n_steps != 1 || attrs.steps[0].kind != StepKind::kBinary) return false;
  const BinaryKind kind = attrs.steps[0].binary;
  return kind == BinaryKind::kAdd || kind == BinaryKind::kSub || kind == BinaryKind::kMul;
}

/// The two last axes of a light step at once.
void run_light(const ElementwiseAttrs& attrs, const Nest& nest, float* const* at) {
  const ElementwiseStep& step = attrs.steps[0];
  const int last = nest.n_axes - 1, x = 1 + step.x, y = 1 + step.y;
  const Runs r{at[0],
               {at[x], nest.stride[x][last]},
               {at[y], nest.stride[y][last]},
               nest.stride[0][last - 1],
               nest.stride[x][last - 1],
               nest.stride[y][last - 1],
               nest.extent[last - 1],
               nest.extent[last]};
  if (step.binary == BinaryKind::kAdd) return zip_runs(r, [](Vec p, Vec q) { return p + q; });
  if (step.binary == BinaryKind::kSub) return zip_runs(r, [](Vec p, Vec q) { return p - q; });
  zip_runs(r, [](Vec p, Vec q) { return p * q; });
}

/// Zeros where a position of n columns does not count; run(first, count) for the positions between.
template <class Run>
DPI_INLINE void for_positions(const float* counts, int64_t positions, int64_t n, float* dst, Run run) {
  for (int64_t first = 0, end = 0; first < positions; first = end) {
    const bool counted = counts[first] != 0;
    for (end = first + 1; end < positions && (counts[end] != 0) == counted;) ++end;
    if (counted)
      run(first, end - first);
    else
      std::memset(dst + first * n, 0, static_cast<size_t>((end - first) * n) * sizeof(float));
  }
}

Span span_of(const Param& p) { return {p.data, p.data == nullptr || dims_size(p.dims) == 1 ? 0 : 1}; }

void unary_positions(const UnaryArgs& a) {
  const int64_t size = dims_size(a.dst.dims), n = a.dst.dims.d[a.dst.dims.rank - 1];
  const SpanUnary f{a.attrs, {span_of(a.p0), span_of(a.p1), span_of(a.p2)}};
  const bool by_column = f.p[0].step + f.p[1].step + f.p[2].step > 0;
  for (int64_t r = 0; r < a.dst.rows && n > 0; ++r) {
    const float* const x = row_of(a.x, r);
    float* const dst = row_of(a.dst, r);
    for_positions(row_of(a.positions, r), size / n, n, dst, [&](int64_t first, int64_t count) {
      const int64_t step = by_column ? n : count * n;
      for (int64_t i = first * n; i < (first + count) * n; i += step)
        unary_span(f, {x + i, 1}, dst + i, step);
    });
  }
}

/// An operand of a row of [positions, columns]: how far its positions and its columns lie apart.
struct Lane {
  const float* data;
  int64_t position, column;

  Span from(int64_t p) const { return {data + p * position, column}; }
};

Lane lane_of(const Tensor& t, int64_t r) {
  const Dims& d = t.dims;
  const int64_t n = d.rank > 0 ? d.d[d.rank - 1] : 1;
  return {row_of(t, r), d.rank > 1 && d.d[d.rank - 2] != 1 ? n : 0, n == 1 ? 0 : 1};
}

void binary_positions(const BinaryArgs& a) {
  const int64_t positions = a.dst.dims.d[0], n = a.dst.dims.d[1];
  for (int64_t r = 0; r < a.dst.rows && n > 0; ++r) {
    const Lane x = lane_of(a.x, r), y = lane_of(a.y, r);
    const bool goes_on = x.position == n * x.column && y.position == n * y.column;
    float* const dst = row_of(a.dst, r);
    for_positions(row_of(a.positions, r), positions, n, dst, [&](int64_t first, int64_t count) {
      const int64_t step = goes_on ? count : 1;
      for (int64_t p = first; p < first + count; p += step)
        binary_span(a.attrs.kind, x.from(p), y.from(p), dst + p * n, step * n);
    });
  }
}

void advance(const Nest& nest, float** at, int axis, int64_t steps) {
  for (int i = 0; i < nest.n_operands; ++i) {
    if (at[i] != nullptr) at[i] += nest.stride[i][axis] * steps;
  }
}

}  // namespace

void elementwise(const ElementwiseArgs& a) {
  if (a.dst.rows == 0 || dims_size(a.dst.dims) == 0 || a.attrs.n_steps == 0) return;
  Nest nest;
  build_nest(a, nest);
  float* at[kMaxOperands];
  for (int i = 0; i < nest.n_operands; ++i) at[i] = nest.data[i];
  int64_t index[kMaxAxes] = {};
  const int last = nest.n_axes - 1;
  const bool light = last > 0 && nest.extent[last] < kShortRun && is_light(a.attrs);
  const int64_t chunk = chunk_of(a.attrs);
  for (;;) {
    if (light) run_light(a.attrs, nest, at);
    for (int64_t i = 0; i < nest.extent[last] && !light; i += chunk) {
      const int64_t n = min_of(chunk, nest.extent[last] - i);
      run_chunk(a.attrs, nest, at, n);
      advance(nest, at, last, n);
    }
    if (!light) advance(nest, at, last, -nest.extent[last]);
    int axis = light ? last - 2 : last - 1;
    for (; axis >= 0; --axis) {
      advance(nest, at, axis, 1);
      if (++index[axis] < nest.extent[axis]) break;
      advance(nest, at, axis, -nest.extent[axis]);
      index[axis] = 0;
    }
    if (axis < 0) return;
  }
}

void unary(const UnaryArgs& a) {
  if (a.positions.data != nullptr) return unary_positions(a);
  Operand input;
  input.tensor = a.x;
  const Param params[3] = {a.p0, a.p1, a.p2};
  ElementwiseArgs e;
  e.attrs.n_inputs = 1;
  e.attrs.n_steps = 1;
  e.attrs.steps[0].unary = a.attrs;
  e.attrs.steps[0].param = 0;
  e.attrs.steps[0].n_params = 3;
  e.inputs = &input;
  e.params = params;
  e.dst = a.dst;
  elementwise(e);
}

void binary(const BinaryArgs& a) {
  if (a.positions.data != nullptr) return binary_positions(a);
  Operand inputs[2];
  inputs[0].tensor = a.x;
  inputs[1].tensor = a.y;
  ElementwiseArgs e;
  e.attrs.n_inputs = 2;
  e.attrs.n_steps = 1;
  e.attrs.steps[0].kind = StepKind::kBinary;
  e.attrs.steps[0].binary = a.attrs.kind;
  e.attrs.steps[0].y = 1;
  e.inputs = inputs;
  e.dst = a.dst;
  elementwise(e);
}

void where(const WhereArgs& a) {
  Operand inputs[3];
  inputs[0].tensor = a.cond;
  inputs[1].tensor = a.yes;
  inputs[2].tensor = a.no;
  ElementwiseArgs e;
  e.attrs.n_inputs = 3;
  e.attrs.n_steps = 1;
  e.attrs.steps[0].kind = StepKind::kWhere;
  e.attrs.steps[0].y = 1;
  e.attrs.steps[0].z = 2;
  e.inputs = inputs;
  e.dst = a.dst;
  elementwise(e);
}

}  // namespace dpi::kernels::cpu::DPI_ISA
