#include "bench/ceilings.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <random>

#if DPI_WITH_ONEDNN
#include <dnnl.hpp>
#endif

namespace dpi::bench {

Memory make_memory(int64_t bytes) {
  constexpr size_t kHuge = size_t{2} << 20;
  const size_t rounded = (static_cast<size_t>(bytes) + kHuge - 1) / kHuge * kHuge;
  Memory m(static_cast<char*>(std::aligned_alloc(kHuge, rounded)));
  madvise(m.get(), rounded, MADV_HUGEPAGE);
  std::memset(m.get(), 0, rounded);
  return m;
}

std::vector<int32_t> random_ids(int64_t n, int64_t bound, uint32_t seed) {
  std::mt19937 rng(seed);
  std::uniform_int_distribution<int32_t> id(0, static_cast<int32_t>(bound - 1));
  std::vector<int32_t> ids(static_cast<size_t>(n));
  for (int32_t& i : ids) i = id(rng);
  return ids;
}

namespace {

// One load per 16 bytes: what reading a row into registers needs at least.
int64_t read_rows(const char* table, int64_t row_bytes, const int32_t* ids, int64_t n, int64_t ahead) {
  int64_t sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (i + ahead < n) {
      const char* next = table + ids[i + ahead] * row_bytes;
      for (int64_t b = 0; b < row_bytes; b += 64) __builtin_prefetch(next + b, 0, 3);
    }
    const char* row = table + ids[i] * row_bytes;
    for (int64_t b = 0; b < row_bytes; b += 16) {
      int64_t v;
      std::memcpy(&v, row + b, sizeof v);
      sum += v;
    }
  }
  return sum;
}

}  // namespace

double gather_ceiling(const char* table, int64_t row_bytes) {
  constexpr int64_t kIds = 400'000,
                    kSets = 12;  // a set comes again only after many cache sizes of other rows
  const std::vector<int32_t> ids = random_ids(kIds * kSets, kTableBytes / row_bytes, 7);
  double best = 0;
  int64_t set = 0;
  volatile int64_t sink = 0;
  for (const int64_t ahead : {8, 16, 32, 64}) {
    const double t = best_seconds(
        [&] {
          sink = sink + read_rows(table, row_bytes, ids.data() + set * kIds, kIds, ahead);
          set = (set + 1) % kSets;
        },
        0.6);
    best = std::max(best, static_cast<double>(kIds * row_bytes) / t * 1e-9);
  }
  return best;
}

double copy_ceiling(int64_t bytes) {
  const Memory from = make_memory(bytes), to = make_memory(bytes);
  const double t = best_seconds([&] {
    std::memcpy(to.get(), from.get(), static_cast<size_t>(bytes));
    asm volatile("" : : "r"(to.get()) : "memory");
  });
  return 2.0 * static_cast<double>(bytes) / t * 1e-9;
}

#if DPI_WITH_ONEDNN && DNNL_VERSION_MAJOR < 3
double onednn_gflops(int64_t m, int64_t n, int64_t k) {
  using dnnl::memory;
  using Tag = memory::format_tag;
  constexpr auto kF32 = memory::data_type::f32;
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  dnnl::post_ops ops;
  ops.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
  dnnl::primitive_attr attr;
  attr.set_post_ops(ops);
  std::vector<float> x(static_cast<size_t>(m * k), 0.5f), y(static_cast<size_t>(m * n)),
      b(static_cast<size_t>(n));
  const memory::desc xd({m, k}, kF32, Tag::ab), yd({m, n}, kF32, Tag::ab);
  const auto run = [&](const dnnl::primitive& p, const memory::desc& wd, const memory::desc& bd) {
    const memory w(wd, engine);
    std::memset(w.get_data_handle(), 0, wd.get_size());
    const std::unordered_map<int, memory> args = {{DNNL_ARG_SRC, memory(xd, engine, x.data())},
                                                  {DNNL_ARG_WEIGHTS, w},
                                                  {DNNL_ARG_BIAS, memory(bd, engine, b.data())},
                                                  {DNNL_ARG_DST, memory(yd, engine, y.data())}};
    const double t = best_seconds([&] {
      p.execute(stream, args);
      stream.wait();
    });
    return 2.0 * static_cast<double>(m * n * k) / t * 1e-9;
  };
  const memory::desc mb({1, n}, kF32, Tag::ab), ib({n}, kF32, Tag::a);
  const dnnl::matmul::primitive_desc mm({xd, memory::desc({k, n}, kF32, Tag::any), mb, yd}, attr, engine);
  const dnnl::inner_product_forward::primitive_desc ip(
      {dnnl::prop_kind::forward_inference, xd, memory::desc({n, k}, kF32, Tag::any), ib, yd}, attr, engine);
  return std::max(run(dnnl::matmul(mm), mm.weights_desc(), mb),
                  run(dnnl::inner_product_forward(ip), ip.weights_desc(), ib));
}
#else
double onednn_gflops(int64_t, int64_t, int64_t) { return 0; }
#endif

}  // namespace dpi::bench
