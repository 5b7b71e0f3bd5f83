// Dense (bias and relu fused) at the shapes of Criteo_x4: 624 inputs, 1000 wide, and the paper's smaller
// ones, few rows against narrow layers among them. The ceiling is oneDNN's own best for the same shape, with
// packed weights, on one thread.
#include "bench/bench.hpp"

int main(int argc, char** argv) {
  using namespace dpi::kernels;
  using namespace dpi::bench;
  benchmark::Initialize(&argc, argv);
  const int64_t shapes[][2] = {{624, 1000}, {1000, 1000}, {624, 624}, {429, 400}, {400, 400},
                               {256, 256},  {512, 512},   {624, 64},  {64, 32}};
  for (const auto& shape : shapes) {
    for (const int64_t m : {1, 2, 4, 8, 16, 128, 1024, 8192}) {
      const int64_t k = shape[0], n = shape[1];
      const std::string name =
          "BM_dense/" + std::to_string(k) + "_" + std::to_string(n) + "/" + std::to_string(m);
      add(name, [=](benchmark::State& state) {
        std::vector<float> x = random_floats(m * k, 1), w = random_floats(n * k, 2), b = random_floats(n, 3);
        std::vector<float> y(static_cast<size_t>(m * n)), want(static_cast<size_t>(m < 32 ? m * n : 0));
        const DenseSegment relu{{UnaryKind::kRelu, 0, 0}, 0, n};
        DenseArgs a;
        a.attrs = {&relu, 1};
        a.x = tensor(x, m, dims_of({k}));
        a.weight = {w.data(), dims_of({n, k})};
        a.bias = {b.data(), dims_of({n})};
        a.dst = tensor(want, m, dims_of({n}));
        if (!want.empty()) ref::dense(a);
        const Memory packed = make_memory(best_set().gemm_packed_floats(n, k) * 4);
        best_set().gemm_pack(w.data(), n, k, reinterpret_cast<float*>(packed.get()));
        cpu::GemmCall c;
        c.x = x.data();
        c.packed = reinterpret_cast<float*>(packed.get());
        c.bias = b.data();
        c.dst = y.data();
        c.m = m;
        c.n = n;
        c.k = k;
        c.ldx = k;
        c.ldd = n;
        c.segments = &relu;
        c.n_segments = 1;
        best_set().gemm(c);
        if (!want.empty()) require_close(y, want, 1e-5, "dense");
        report(
            state, [&] { best_set().gemm(c); }, 2.0 * static_cast<double>(m * n * k), "GFLOP/s",
            onednn_gflops(m, n, k));
      });
    }
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
