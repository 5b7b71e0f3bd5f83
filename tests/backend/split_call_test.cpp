// How the cpu backend shares the rows of one op among threads: what each share is given. The pool runs the
// shares one after another, so nothing here depends on the machine.
#include "backend/cpu/split_call.hpp"

#include <doctest/doctest.h>

#include <vector>

namespace dpi::test {
namespace {

using backend::CpuOp;
using kernels::OpKind;

std::vector<dpi_op_call> calls;
std::vector<kernels::Operand> inputs;  // of each call, n_inputs each
std::vector<kernels::Tensor> outputs;

void note(const CpuOp& op, const dpi_op_call& call) {
  calls.push_back(call);
  inputs.insert(inputs.end(), call.inputs, call.inputs + op.op.inputs.size());
  outputs.insert(outputs.end(), call.outputs, call.outputs + op.op.outputs.size());
}

struct Whole {
  CpuOp op;
  dpi_backend_pool pool{};
  std::vector<kernels::Operand> in;
  kernels::Tensor out;
  dpi_op_call call{};

  Whole(OpKind kind, int64_t rows) {
    pool.run = [](void*, int32_t shares, void (*share)(void*, int32_t), void* context) {
      for (int32_t i = 0; i < shares; ++i) share(context, i);
    };
    op.op.kind = kind;
    op.pool = &pool;
    op.threads = 4;
    op.run = note;
    call.rows = out.rows = rows;
    out.row_stride = 3;
  }
  void run() {
    calls.clear();
    inputs.clear();
    outputs.clear();
    op.op.inputs.resize(in.size());
    op.op.outputs.resize(1);
    call.inputs = in.data();
    call.outputs = &out;
    REQUIRE(backend::worth_splitting(op, call));
    backend::run_split(op, call);
  }
};

constexpr int64_t kRows = 701;
constexpr int64_t kBegin[] = {0, 140, 280, 420, 560, 701};  // 5 shares of at least 128 rows would fit

TEST_CASE("shares take all rows once, each with its part of every operand and scratch of its own") {
  Whole w(OpKind::kRecurrent, kRows);
  std::vector<float> memory(7 * kRows);
  std::vector<int32_t> ids(5 * kRows), offsets(kRows + 1);
  std::vector<char> scratch(5 * 64);
  float weight = 1;
  w.out.data = memory.data();
  w.in.resize(5);
  w.in[0].tensor.data = memory.data();
  w.in[0].tensor.row_stride = 7;
  w.in[1].tensor.data = memory.data();  // the same row for all
  w.in[2].bags.ids = ids.data();        // one id a row, of five side by side
  w.in[2].bags.stride = 5;
  w.in[3].bags.ids = ids.data();  // bags
  w.in[3].bags.offsets = offsets.data();
  w.in[3].bags.weights = &weight;
  w.call.scratch = scratch.data();
  w.op.scratch_per_call = 64;
  w.op.threads = 5;
  w.run();
  REQUIRE(calls.size() == 5);
  for (size_t s = 0; s < 5; ++s) {
    CAPTURE(s);
    const int64_t begin = kBegin[s];
    CHECK(calls[s].rows == kBegin[s + 1] - begin);
    CHECK(calls[s].scratch == scratch.data() + 64 * s);
    const kernels::Operand* in = &inputs[5 * s];
    CHECK(in[0].tensor.data == memory.data() + 7 * begin);
    CHECK(in[0].tensor.rows == calls[s].rows);
    CHECK(in[1].tensor.data == memory.data());
    CHECK(in[2].bags.ids == ids.data() + 5 * begin);
    CHECK(in[2].bags.rows == calls[s].rows);
    CHECK(in[3].bags.ids == ids.data());
    CHECK(in[3].bags.offsets == offsets.data() + begin);
    CHECK(in[3].bags.weights == &weight);
    CHECK(in[4].tensor.data == nullptr);
    CHECK(outputs[s].data == memory.data() + 3 * begin);
    CHECK(outputs[s].rows == calls[s].rows);
  }
}

TEST_CASE("shares of a row broadcast read by their part of the map") {
  Whole w(OpKind::kBroadcastRows, kRows);
  std::vector<float> memory(7 * kRows);
  std::vector<int32_t> map(kRows);
  w.out.data = memory.data();
  w.in.resize(1);
  w.in[0].tensor.data = memory.data();
  w.in[0].tensor.row_stride = 3;
  w.call.row_map = map.data();
  w.run();
  REQUIRE(calls.size() == 4);
  for (size_t s = 0; s < 4; ++s) {
    const auto begin = static_cast<int64_t>(kRows * s / 4);
    CHECK(calls[s].row_map == map.data() + begin);
    CHECK(inputs[s].tensor.data == memory.data());  // found by the map
    CHECK(outputs[s].data == memory.data() + 3 * begin);
  }
}

}  // namespace
}  // namespace dpi::test
