// The memory-bound ops: CrossV1, CrossV1Closed, Fm, Elementwise, Tail; and CoAction. GB/s counts bytes read
// and written once per op; the ceiling is memcpy over a working set of the same size (2048 rows of 624
// floats: 5 MB, beyond the second-level cache).
#include "bench/bench.hpp"

namespace {

using namespace dpi::kernels;
using namespace dpi::bench;

constexpr int64_t kRows = 2048;
constexpr int64_t kWidth = 624;
constexpr double kRowBytes = kWidth * 4.0;

double ceiling() {
  static const double kCopy = copy_ceiling(kRows * kWidth * 4);
  return kCopy;
}

void cross(benchmark::State& state) {
  std::vector<float> x = random_floats(kRows * kWidth), w = random_floats(3 * kWidth, 2),
                     b = random_floats(3 * kWidth, 3);
  std::vector<float> y(x.size()), want(x.size());
  for (float& v : w) v *= 0.05f;
  CrossV1Args a{{3},
                tensor(x, kRows, dims_of({kWidth})),
                {w.data(), dims_of({3, kWidth})},
                {b.data(), dims_of({3, kWidth})},
                tensor(want, kRows, dims_of({kWidth}))};
  ref::cross_v1(a);
  a.dst.data = y.data();
  best_set().cross_v1(a);
  require_close(y, want, 1e-4, "cross_v1");
  report(state, [&] { best_set().cross_v1(a); }, kRows * kRowBytes * 2, "GB/s", ceiling());
}

void cross_closed(benchmark::State& state) {
  std::vector<float> p = random_floats(kRows * 4), k = random_floats(3, 2), y0 = {0.1f}, y(kRows),
                     want(kRows);
  CrossV1ClosedArgs a{{3},
                      tensor(p, kRows, dims_of({4})),
                      {k.data(), dims_of({3})},
                      {y0.data(), dims_of({1})},
                      tensor(want, kRows, dims_of({1}))};
  ref::cross_v1_closed(a);
  a.dst.data = y.data();
  best_set().cross_v1_closed(a);
  require_close(y, want, 1e-5, "cross_v1_closed");
  report(state, [&] { best_set().cross_v1_closed(a); }, kRows * 20.0, "GB/s", copy_ceiling(kRows * 10));
}

void fm(benchmark::State& state) {
  std::vector<float> x = random_floats(kRows * kWidth), y(kRows), want(kRows);
  FmArgs a{{39, 16}, tensor(x, kRows, dims_of({39, 16})), tensor(want, kRows, dims_of({1}))};
  ref::fm(a);
  a.dst.data = y.data();
  best_set().fm(a);
  require_close(y, want, 1e-4, "fm");
  report(state, [&] { best_set().fm(a); }, kRows * kRowBytes, "GB/s", ceiling());
}

/// sigmoid(x) * y + z, as gates have it.
void elementwise(benchmark::State& state) {
  std::vector<float> x = random_floats(kRows * kWidth), y = random_floats(kRows * kWidth, 2), out(x.size()),
                     want(x.size());
  Operand inputs[2];
  inputs[0].tensor = tensor(x, kRows, dims_of({kWidth}));
  inputs[1].tensor = tensor(y, kRows, dims_of({kWidth}));
  ElementwiseArgs a;
  a.attrs.n_inputs = 2;
  a.attrs.n_steps = 3;
  a.attrs.steps[0].unary.kind = UnaryKind::kSigmoid;
  a.attrs.steps[1].kind = StepKind::kBinary;
  a.attrs.steps[1].binary = BinaryKind::kMul;
  a.attrs.steps[1].x = 2;
  a.attrs.steps[1].y = 1;
  a.attrs.steps[2].kind = StepKind::kBinary;
  a.attrs.steps[2].x = 3;
  a.attrs.steps[2].y = 0;
  a.inputs = inputs;
  a.dst = tensor(want, kRows, dims_of({kWidth}));
  ref::elementwise(a);
  a.dst.data = out.data();
  best_set().elementwise(a);
  require_close(out, want, 1e-5, "elementwise");
  report(state, [&] { best_set().elementwise(a); }, kRows * kRowBytes * 3, "GB/s", ceiling());
}

void tail(benchmark::State& state) {
  std::vector<float> x = random_floats(kRows * kWidth), w = random_floats(kWidth, 2),
                     s = random_floats(kRows, 3), y(kRows), want(kRows);
  Operand inputs[2];
  inputs[0].tensor = tensor(x, kRows, dims_of({kWidth}));
  inputs[1].tensor = tensor(s, kRows, dims_of({1}));
  const Param weights[2] = {{w.data(), dims_of({kWidth})}, {}};
  TailArgs a{{{UnaryKind::kSigmoid, 0, 0}, 0.1f}, inputs, weights, 2, kRows, {},
             tensor(want, kRows, dims_of({1}))};
  ref::tail(a);
  a.value.data = y.data();
  best_set().tail(a);
  require_close(y, want, 1e-5, "tail");
  report(state, [&] { best_set().tail(a); }, kRows * kRowBytes, "GB/s", ceiling());
}

/// CAN's released sizes: 160 numbers a micro-MLP, three orders, 36 outputs; tanh takes most of the time.
void co_action(benchmark::State& state, int64_t items) {
  const MicroLevel levels[] = {{16, 8, 0, -1, 0, {UnaryKind::kTanh, 0, 0}}, {8, 4, 128, -1, 8, {}}};
  CoActionAttrs attrs;
  for (const MicroLevel& level : levels) attrs.levels[attrs.n_levels++] = level;
  attrs.orders = 3;
  attrs.out_step = 12;
  attrs.feed_dim = 16;
  attrs.max_len = items;
  std::vector<float> induction = random_floats(kRows * 160), table = random_floats(1000 * 16, 2),
                     y(kRows * 36), want(y.size());
  std::vector<int32_t> ids, offsets{0};
  for (int64_t i = 0; i < kRows * items; ++i) ids.push_back(static_cast<int32_t>(i * 7919 % 1000));
  for (int64_t r = 1; r <= kRows; ++r) offsets.push_back(static_cast<int32_t>(r * items));
  CoActionArgs a;
  a.attrs = attrs;
  a.induction = tensor(induction, kRows, dims_of({160}));
  a.ids.ids = ids.data();
  a.ids.offsets = offsets.data();
  a.ids.rows = kRows;
  a.table.base = table.data();
  a.table.rows = 1000;
  a.table.row_bytes = 64;
  a.table.dim = 16;
  a.dst = tensor(want, kRows, dims_of({36}));
  ref::co_action(a);
  a.dst.data = y.data();
  best_set().co_action(a);
  require_close(y, want, 1e-5, "co_action");
  const double flops = 2.0 * 3 * 160;
  report(state, [&] { best_set().co_action(a); }, static_cast<double>(kRows * items) * flops, "GFLOP/s", 0);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  add("BM_co_action/2048_3_items", [](benchmark::State& s) { co_action(s, 3); });
  add("BM_co_action/2048_32_items", [](benchmark::State& s) { co_action(s, 32); });
  add("BM_cross_v1/2048x624_l3", cross);
  add("BM_cross_v1_closed/2048_l3", cross_closed);
  add("BM_fm/2048x39x16", fm);
  add("BM_elementwise/2048x624_gate", elementwise);
  add("BM_tail/2048x624", tail);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
