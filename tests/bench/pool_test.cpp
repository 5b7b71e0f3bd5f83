// The cpu backend's pool (option threads): same bits as one thread, also when several callers use one device.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <dpi/kernels/dense.hpp>

#include "backend/abi/registry.hpp"
#include "base/thread_pool.hpp"

namespace {

using namespace dpi::kernels;

constexpr int64_t kRows = 1000, kIn = 37, kOut = 50;

/// One pool for all devices of this program, as an environment has it.
dpi_backend_pool shared_pool() {
  static dpi::ThreadPool threads;
  dpi_backend_pool p{};
  p.self = &threads;
  p.grow = [](void* self, int32_t n, dpi_backend_error*) {
    return static_cast<int32_t>(static_cast<dpi::ThreadPool*>(self)->grow(n).code());
  };
  p.run = [](void* self, int32_t parts, void (*part)(void*, int32_t), void* context) {
    static_cast<dpi::ThreadPool*>(self)->run(parts, part, context);
  };
  return p;
}

struct Prepared {
  const dpi_backend_pool pool = shared_pool();
  const dpi_backend_api* api = dpi::backend::cpu_backend();
  dpi_backend_device* device = nullptr;
  dpi_backend_op* op = nullptr;
  dpi_backend_error error{};
  std::vector<float> weight = std::vector<float>(kIn * kOut);

  explicit Prepared(int32_t threads) {
    for (size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<float>(i % 17) * 0.1f - 0.8f;
    dpi_backend_options options{};
    options.struct_size = sizeof options;
    options.threads = threads;
    options.isa = "auto";
    options.pool = &pool;
    REQUIRE(api->open(&options, &device, &error) == 0);
    const DenseSegment all{{UnaryKind::kSigmoid, 0, 0}, 0, kOut};
    const DenseAttrs attrs{&all, 1};
    dpi_value_desc x{}, y{};
    x.dims = {1, {kIn}};
    x.row_stride = kIn;
    y.dims = {1, {kOut}};
    y.row_stride = kOut;
    const Param w{weight.data(), {2, {kOut, kIn}}};
    dpi_op_desc d{};
    d.struct_size = sizeof d;
    d.kind = OpKind::kDense;
    d.name = "layer";
    d.attrs = &attrs;
    d.inputs = &x;
    d.outputs = &y;
    d.params = &w;
    d.n_inputs = d.n_outputs = d.n_params = 1;
    d.max_rows = kRows;
    REQUIRE_MESSAGE(api->op_prepare(device, &d, &op, nullptr, 0, &error) == 0, error.message);
  }
  ~Prepared() {
    api->op_free(device, op);
    api->close(device);
  }
  bool run(std::vector<float>& x, std::vector<float>& y) const {
    Operand in;
    in.tensor = {x.data(), kRows, kIn, {1, {kIn}}};
    Tensor out{y.data(), kRows, kOut, {1, {kOut}}};
    dpi_op_call call{};
    call.rows = kRows;
    call.inputs = &in;
    call.outputs = &out;
    dpi_backend_error e{};
    return api->enqueue(nullptr, op, &call, &e) == 0;
  }
};

}  // namespace

TEST_CASE("threads: the same bits, alone and with several callers") {
  std::vector<float> x(kRows * kIn), want(kRows * kOut);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 101) * 0.01f;
  REQUIRE(Prepared(1).run(x, want));
  const Prepared pooled(4), wider(6);  // side by side on the same threads
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&, c] {
      std::vector<float> mine = x, got(want.size());
      for (int i = 0; i < 20; ++i) {
        std::fill(got.begin(), got.end(), -1.0f);
        if (!(c % 2 == 0 ? pooled : wider).run(mine, got) || got != want) ++wrong;
      }
    });
  }
  for (std::thread& t : callers) t.join();
  CHECK(wrong == 0);
}

TEST_CASE("threads and isa: wrong values are refused with a reason") {
  const dpi_backend_api* api = dpi::backend::cpu_backend();
  dpi_backend_options options{};
  options.struct_size = sizeof options;
  options.isa = "auto";
  options.threads = -1;
  dpi_backend_device* device = nullptr;
  dpi_backend_error error{};
  CHECK(api->open(&options, &device, &error) != 0);
  CHECK(std::string(error.message).find("threads=-1") != std::string::npos);
  options.threads = 0;
  options.isa = "sse9";
  CHECK(api->open(&options, &device, &error) != 0);
  CHECK(std::string(error.message).find("sse9") != std::string::npos);
}
