// Embed and MultiLookup of every instruction set against the reference: all row types, pooling and mask
// rules, empty bags, weights, rows that are not aligned, FM and scalar channels.
#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "bench/lookup_data.hpp"
#include "kernels/cpu/tables.hpp"

namespace dpi::test::lookup_sets_test {
namespace {

using namespace dpi::kernels;
using Table = dpi::test::LookupTable;

struct Case {
  DType dtype;
  Pooling pooling;
  MaskRule mask;
  int32_t dim;
  int64_t rows;
};

EmbedAttrs attrs_of(const Case& c) {
  EmbedAttrs a;
  a.pooling = c.pooling;
  a.mask = c.mask;
  a.pad_id = 1;
  a.max_len = c.mask == MaskRule::kNone || c.pooling == Pooling::kNone ? 9 : 0;
  a.eps = 1e-8f;
  a.empty = -0.5f;
  return a;
}

/// Two fields of the case's kind (copied, and FM only), a one-hot one, scalars riding on both, two numerics.
void run_case(const cpu::Functions& f, const Case& c) {
  std::mt19937 rng(static_cast<uint32_t>(c.dim * 131 + c.rows));
  const Table table(rng, c.dtype, c.dim, 37), plain(rng, c.dtype, c.dim, 64), lr(rng, DType::kF32, 3, 64);
  const bool one_hot = c.pooling == Pooling::kSingle;
  const BagData bags(rng, c.rows, 37, one_hot, c.pooling == Pooling::kSum),
      single(rng, c.rows, 64, true, false);
  std::vector<float> x(static_cast<size_t>(c.rows)), vec(static_cast<size_t>(c.dim)), coef(8),
      bias = {0.1f, 0.2f, 0.3f, 0.4f};
  for (auto* v : {&x, &vec, &coef}) {
    for (float& e : *v) e = std::uniform_real_distribution<float>(-1, 1)(rng);
  }
  Operand inputs[3];
  inputs[0].bags = bags.bags;
  inputs[1].bags = single.bags;
  inputs[2].tensor = tensor_over(x, c.rows, 1, 1);
  const TableView tables[3] = {table.view, plain.view, lr.view};
  const EmbedAttrs pooled = attrs_of(c), one{};
  const LookupField fields[3] = {
      {pooled, 0, 0, 1, true}, {one, 1, 1, -1, true}, {one, 1, 1, 2 + c.dim, false}};
  const ScalarField scalars[1] = {{one, 1, 2, 1, 3}};
  const NumericField numerics[2] = {{2, 3 + 2 * c.dim, c.dim, 0, 0, true}, {2, 0, 1, -1, -1, false}};
  MultiLookupArgs a;
  a.attrs = {fields, scalars, numerics, 3, 1, 2, 4, 0, c.dim};
  a.inputs = inputs;
  a.tables = tables;
  a.numeric_vec = {vec.data(), {1, {c.dim}}};
  a.numeric_coef = {coef.data(), {1, {8}}};
  a.channel_bias = {bias.data(), {1, {4}}};
  a.rows = c.rows;
  const int64_t stride = 3 * c.dim + 7;
  std::vector<float> out[2], chan[2];
  for (int i = 0; i < 2; ++i) {
    out[i].assign(static_cast<size_t>(c.rows * stride), NAN);
    chan[i].assign(static_cast<size_t>(c.rows * 5), NAN);
    a.out = tensor_over(out[i], c.rows, stride, 3 * c.dim + 3);
    a.chan = tensor_over(chan[i], c.rows, 5, 4);
    i == 0 ? ref::multi_lookup(a) : f.multi_lookup(a);
  }
  check_buffers(out[1], out[0], 3e-6f);
  // Sums of weighted bags are tens of times larger.
  check_buffers(chan[1], chan[0], c.pooling == Pooling::kSum ? 3e-4f : 2e-5f);
}

void run_embed(const cpu::Functions& f, const Case& c, PadSide side) {
  std::mt19937 rng(static_cast<uint32_t>(c.dim * 7 + c.rows));
  const Table table(rng, c.dtype, c.dim, 37);
  const BagData bags(rng, c.rows, 37, c.pooling == Pooling::kSingle, false);
  const int64_t n = c.dim * (c.pooling == Pooling::kNone ? 9 : 1);
  std::vector<float> got(static_cast<size_t>(c.rows * (n + 2)), NAN), want = got;
  EmbedArgs a{attrs_of(c), bags.bags, table.view, tensor_over(want, c.rows, n + 2, n)};
  a.attrs.pad_side = side;
  ref::embed(a);
  a.dst = tensor_over(got, c.rows, n + 2, n);
  f.embed(a);
  check_buffers(got, want, 3e-6f);
}

}  // namespace

TEST_CASE("lookups: row types, pooling, masks") {
  for (const cpu::Isa isa : {cpu::Isa::kScalar, cpu::Isa::kAvx2, cpu::Isa::kAvx512, cpu::Isa::kNeon}) {
    if (!cpu::isa_supported(isa)) continue;
    const cpu::Functions& f = cpu::functions(isa);
    for (const DType dtype :
         {DType::kF32, DType::kF16, DType::kBF16, DType::kI8, DType::kI4, DType::kI2, DType::kFp8}) {
      for (const Pooling pooling :
           {Pooling::kSingle, Pooling::kNone, Pooling::kSum, Pooling::kMean, Pooling::kMax}) {
        for (const MaskRule mask : {MaskRule::kLength, MaskRule::kId, MaskRule::kNonzero, MaskRule::kNone}) {
          if (pooling == Pooling::kMax && mask == MaskRule::kNonzero) continue;  // mean and sum only
          for (const int32_t dim : {1, 4, 10, 16, 17, 33}) {
            const Case c{dtype, pooling, mask, dim, dim % 2 == 0 ? 37 : 16};
            CAPTURE(std::string(cpu::isa_name(isa)));
            CAPTURE(static_cast<int>(dtype));
            CAPTURE(static_cast<int>(pooling));
            CAPTURE(static_cast<int>(mask));
            CAPTURE(dim);
            if (pooling != Pooling::kNone) run_case(f, c);
            run_embed(f, c, PadSide::kPost);
            run_embed(f, c, PadSide::kPre);
          }
        }
      }
    }
  }
}

}  // namespace dpi::test::lookup_sets_test
