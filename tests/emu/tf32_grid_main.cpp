// The benchmark's fp32 models under tensor cores that cut (kernels/emu/tensor_core.hpp): logits of every
// shape of the grid (tests/gpu/stages/spec.py) by three tf32 products in several orders of their terms,
// against float64. Fails where what the engine runs leaves the gate of fp32, 1e-5 max(1, |logit|), and where
// the order with the large product first never does, because then this program finds nothing.
//
//   emu_tf32_grid [--rows=24] [--tensor=hopper|ampere] [--all | --table]
//
// A few shapes; --all takes every one, --table too, in every order. DCNv2 with an eighth of the rows.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <dpi/kernels/narrow.hpp>

#include "kernels/cuda/gemm/gemm.hpp"
#include "kernels/emu/tensor_core.hpp"

namespace dpi::test {
namespace {

constexpr double kGate = 1e-5;
constexpr int kN = emu::kTensorColumns;
constexpr int kSlab = 16;  // elements that gemm/wmma.cu sums up before it adds them to the total
constexpr int kCrossLayers = 3;

struct Shape {
  const char* dataset;
  int64_t fields, dim, hidden;
  bool cross;  // DCNv2; the other three models have the same products
};

/// kEngine: as gemm/lt.cpp does for 256 rows and more with the library there: small terms first, what is too
/// deep in parts that are added up outside the cores. kSlabs: the own kernel.
enum class Order { kEngine, kLargeFirst, kSmallFirst, kSlabs, kSimt };
constexpr size_t kOrders = 5;
constexpr const char* kNames[kOrders] = {"engine", "large first", "small first", "slabs", "SIMT"};

std::vector<float> noise(int64_t n, double deviation, uint64_t* state) {
  std::vector<float> v(static_cast<size_t>(n));
  const float range = static_cast<float>(deviation * std::sqrt(3.0));
  for (float& x : v) {
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    x = (static_cast<float>(*state >> 40) * 0x1p-23f - 1.0f) * range;
  }
  return v;
}

/// A layer's weights, the tf32 parts in tiles of 16 outputs.
struct Layer {
  int64_t in = 0, out = 0;
  std::vector<float> weight, bias, high, low, exact;

  Layer(int64_t in_, int64_t out_, double deviation, uint64_t* state) : in(in_), out(out_) {
    weight = noise(in * out, deviation, state);
    bias = noise(out, 0.05, state);
    const int64_t tiles = (out + kN - 1) / kN;
    for (auto* part : {&high, &low, &exact}) part->assign(static_cast<size_t>(tiles * in * kN), 0.0f);
    for (int64_t o = 0; o < out; ++o) {
      for (int64_t k = 0; k < in; ++k) {
        const auto to = static_cast<size_t>((o / kN * in + k) * kN + o % kN);
        const float v = weight[static_cast<size_t>(o * in + k)];
        exact[to] = v;
        high[to] = kernels::round_to_tf32(v);
        low[to] = kernels::round_to_tf32(v - high[to]);
      }
    }
  }

  using Tile = const float (*)[kN];
  static Tile tile(const std::vector<float>& part, int64_t index, int64_t in) {
    return reinterpret_cast<Tile>(part.data() + index * in * kN);
  }
};

struct Row {  // of an input
  const float* value;
  const float* high;
  const float* low;
};

void multiply(const emu::TensorCore& core, Order order, const Layer& l, int64_t tile, const Row& x,
              float* sum) {
  const auto n = static_cast<int>(l.in);
  const Layer::Tile high = Layer::tile(l.high, tile, l.in), low = Layer::tile(l.low, tile, l.in);
  const auto add = [&](float* to, const float* a, Layer::Tile b, int depth) {
    emu::tensor_add(to, a, b, depth, core.depth_tf32, core.extra_bits);
  };
  if (order == Order::kSimt) {
    const Layer::Tile w = Layer::tile(l.exact, tile, l.in);
    for (int k = 0; k < n; ++k) {
      for (int j = 0; j < kN; ++j) sum[j] = std::fmaf(x.value[k], w[k][j], sum[j]);
    }
  } else if (order == Order::kLargeFirst) {
    add(sum, x.high, high, n);
    add(sum, x.high, low, n);
    add(sum, x.low, high, n);
  } else if (order == Order::kSmallFirst || order == Order::kEngine) {
    const int64_t parts = order == Order::kEngine ? kernels::cuda::split_slabs(n) : 1;
    const auto each = static_cast<int>(kernels::cuda::split_depth(n, parts));
    for (int k = 0; k < n; k += each) {
      float part[kN] = {};
      const int depth = std::min(each, n - k);
      add(part, x.low + k, high + k, depth);
      add(part, x.high + k, low + k, depth);
      add(part, x.high + k, high + k, depth);
      for (int j = 0; j < kN; ++j) sum[j] += part[j];
    }
  } else {
    for (int k = 0; k < n; k += kSlab) {
      float slab[kN] = {};
      const int depth = std::min(kSlab, n - k);
      for (int i = 0; i < depth; i += 8) {
        add(slab, x.low + k + i, high + k + i, std::min(8, depth - i));
        add(slab, x.high + k + i, low + k + i, std::min(8, depth - i));
      }
      add(slab, x.high + k, high + k, depth);
      for (int j = 0; j < kN; ++j) sum[j] += slab[j];
    }
  }
}

/// W x + b of one row in float32.
std::vector<float> layer(const emu::TensorCore& core, Order order, const Layer& l,
                         const std::vector<float>& x) {
  std::vector<float> high(x.size()), low(x.size()), y(static_cast<size_t>(l.out));
  for (size_t i = 0; i < x.size(); ++i) {
    high[i] = kernels::round_to_tf32(x[i]);
    low[i] = kernels::round_to_tf32(x[i] - high[i]);
  }
  for (int64_t t = 0; t * kN < l.out; ++t) {
    float sum[kN] = {};
    multiply(core, order, l, t, {x.data(), high.data(), low.data()}, sum);
    for (int64_t j = 0; j < kN && t * kN + j < l.out; ++j)
      y[static_cast<size_t>(t * kN + j)] = sum[j] + l.bias[static_cast<size_t>(t * kN + j)];
  }
  return y;
}

std::vector<double> exact_layer(const Layer& l, const std::vector<double>& x) {
  std::vector<double> y(static_cast<size_t>(l.out));
  for (int64_t t = 0; t * kN < l.out; ++t) {
    const Layer::Tile w = Layer::tile(l.exact, t, l.in);
    double sum[kN] = {};
    for (int64_t k = 0; k < l.in; ++k) {
      for (int j = 0; j < kN; ++j) sum[j] += x[static_cast<size_t>(k)] * w[k][j];
    }
    for (int64_t j = 0; j < kN && t * kN + j < l.out; ++j)
      y[static_cast<size_t>(t * kN + j)] = sum[j] + l.bias[static_cast<size_t>(t * kN + j)];
  }
  return y;
}

/// A model of the grid after its lookup.
struct Model {
  std::vector<Layer> cross, mlp;
  std::vector<Layer> out;  // one
  uint64_t state;

  explicit Model(const Shape& s) : state(static_cast<uint64_t>(s.fields * 7919 + s.dim * 31 + s.hidden)) {
    const int64_t n = s.fields * s.dim;
    for (int i = 0; s.cross && i < kCrossLayers; ++i)
      cross.emplace_back(n, n, 1 / std::sqrt(static_cast<double>(n)), &state);
    int64_t width = n;
    for (int i = 0; i < 3; ++i) {
      mlp.emplace_back(width, s.hidden, std::sqrt(2.0 / static_cast<double>(width)), &state);
      width = s.hidden;
    }
    width += s.cross ? n : 0;
    out.emplace_back(width, 1, 3 / std::sqrt(static_cast<double>(width)), &state);
  }

  // T: float or double; product(layer, x) is W x + b.
  template <class T, class Product>
  T logit(const std::vector<float>& row, const Product& product) const {
    const std::vector<T> x0(row.begin(), row.end());
    std::vector<T> h = x0, x = x0;
    for (const Layer& l : cross) {
      const std::vector<T> y = product(l, x);
      for (size_t i = 0; i < x.size(); ++i) x[i] += x0[i] * y[i];
    }
    for (const Layer& l : mlp) {
      h = product(l, h);
      for (T& v : h) v = v < 0 ? 0 : v;
    }
    if (!cross.empty()) h.insert(h.begin(), x.begin(), x.end());
    T sum = out[0].bias[0];
    for (size_t i = 0; i < h.size(); ++i) sum += h[i] * out[0].weight[i];
    return sum;
  }
};

struct Worst {
  double of[kOrders] = {};
  void take(size_t order, double error) {
    if (!(error <= of[order])) of[order] = std::isnan(error) ? INFINITY : error;
  }
};

struct Job {
  int64_t rows = 24;
  bool all = false;
  bool table = false;
  emu::TensorCore core = emu::kHopper;
};

/// Does `order` take part for this row? Without a table the one that must fail does for a few rows.
bool wanted(const Job& job, Order order, int64_t row) {
  return job.table || order == Order::kEngine || (order == Order::kLargeFirst && row < 12);
}

/// Every second row: the worst error of each order.
Worst run_rows(const Shape& s, const Model& m, const Job& job, int64_t begin) {
  Worst worst;
  const int64_t rows =
      s.cross ? (job.rows + 7) / 8 : job.rows;  // three layers more, as wide as they are deep
  for (int64_t r = begin; r < rows; r += 2) {
    uint64_t state = m.state + static_cast<uint64_t>(r) * 0x9E3779B97F4A7C15ull;
    const std::vector<float> x = noise(s.fields * s.dim, 0.2, &state);
    const auto want =
        m.logit<double>(x, [](const Layer& l, const std::vector<double>& in) { return exact_layer(l, in); });
    for (size_t i = 0; i < kOrders; ++i) {
      const auto order = static_cast<Order>(i);
      if (!wanted(job, order, r)) continue;
      const float got = m.logit<float>(
          x, [&](const Layer& l, const std::vector<float>& in) { return layer(job.core, order, l, in); });
      worst.take(i, std::fabs(got - want) / std::max(1.0, std::fabs(want)));
    }
  }
  return worst;
}

Worst run_shape(const Shape& s, const Job& job) {
  const Model model(s);
  Worst halves[2];
  std::thread first([&] { halves[0] = run_rows(s, model, job, 0); });
  halves[1] = run_rows(s, model, job, 1);
  first.join();
  for (size_t i = 0; i < kOrders; ++i) halves[0].take(i, halves[1].of[i]);
  return halves[0];
}

std::vector<Shape> shapes(bool every) {
  if (!every)
    return {{"criteo", 39, 32, 1024, false}, {"avazu", 24, 16, 256, false}, {"avazu", 24, 16, 256, true}};
  std::vector<Shape> all;
  for (const bool cross : {false, true}) {
    for (const int64_t fields : {39, 24}) {
      for (const int64_t dim : {16, 32}) {
        for (const int64_t hidden : {256, 512, 1024})
          all.push_back({fields == 39 ? "criteo" : "avazu", fields, dim, hidden, cross});
      }
    }
  }
  return all;
}

std::string name_of(const Shape& s) {
  return std::string(s.cross ? "DCNv2 " : "MLP ") + s.dataset + " " + std::to_string(s.dim) + "_" +
         std::to_string(s.hidden);
}

void print_line(const std::string& name, const Worst& w) {
  std::printf("| %s |", name.c_str());
  for (const double error : w.of) std::printf(" %.1e |", error);
  std::printf("\n");
  std::fflush(stdout);
}

int run(const Job& job) {
  int wrong = 0, lost = 0;
  if (job.table) {
    std::printf("| model |");
    for (const char* name : kNames) std::printf(" %s |", name);
    std::printf("\n|---|---|---|---|---|---|\n");
  }
  for (const Shape& s : shapes(job.all || job.table)) {
    const Worst w = run_shape(s, job);
    if (job.table) print_line(name_of(s), w);
    if (!(w.of[0] <= kGate)) {
      std::printf("%s: %.2e is beyond the gate\n", name_of(s).c_str(), w.of[0]);
      ++wrong;
    }
    if (!(w.of[1] <= kGate)) ++lost;
  }
  std::printf("%lld rows: %d shapes beyond the gate, %d with the large product first\n",
              static_cast<long long>(job.rows), wrong, lost);
  return wrong == 0 && lost > 0 ? 0 : 1;
}

}  // namespace
}  // namespace dpi::test

int main(int argc, char** argv) {
  dpi::test::Job job;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--rows=", 7) == 0) job.rows = std::atoll(argv[i] + 7);
    if (std::strcmp(argv[i], "--all") == 0) job.all = true;
    if (std::strcmp(argv[i], "--table") == 0) job.table = true;
    if (std::strcmp(argv[i], "--tensor=ampere") == 0) job.core = dpi::emu::kAmpere;
  }
  return dpi::test::run(job);
}
