// Embed and MultiLookup of every instruction set against the reference: all row types, pooling and mask
// rules, empty bags, weights, rows that are not aligned, FM and scalar channels.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/tables.hpp"

namespace {

using namespace dpi::kernels;

struct Table {
  std::vector<char> bytes;
  std::vector<float> scale;
  std::vector<uint64_t> nonzero;
  TableView view;

  Table(std::mt19937& rng, DType dtype, int32_t dim, int64_t rows) {
    const int64_t element = dtype_bytes(dtype);
    view.rows = rows;
    view.dim = dim;
    view.dtype = dtype;
    view.row_bytes = dim * element + (rows % 2 == 0 ? 0 : 3 * element);
    bytes.resize(static_cast<size_t>(rows * view.row_bytes + 1));
    scale.resize(static_cast<size_t>(rows));
    nonzero.assign(static_cast<size_t>(rows / 64 + 1), 0);
    for (int64_t r = 0; r < rows; ++r) {
      scale[static_cast<size_t>(r)] = 0.001f * static_cast<float>(1 + rng() % 7);
      const bool zero = r % 5 == 0;
      if (!zero) nonzero[static_cast<size_t>(r / 64)] |= uint64_t{1} << (r % 64);
      for (int32_t k = 0; k < dim; ++k) write(bytes.data() + 1 + r * view.row_bytes + k * element, zero, rng);
    }
    view.base = bytes.data() + 1;  // rows need not be aligned
    view.scale = scale.data();
    view.scale_stride = 1;
    view.nonzero = nonzero.data();
  }

  void write(char* at, bool zero, std::mt19937& rng) const {
    if (view.dtype == DType::kF32) {
      const float v = zero ? 0 : std::uniform_real_distribution<float>(-1, 1)(rng);
      std::memcpy(at, &v, 4);
    } else if (view.dtype == DType::kI8) {
      const auto v = static_cast<int8_t>(zero ? 0 : static_cast<int>(rng() % 255) - 127);
      std::memcpy(at, &v, 1);
    } else {
      const bool half = view.dtype == DType::kF16;  // exponents near 1, some subnormal halves
      const uint32_t exponent = half ? rng() % 17 : 0x78u + rng() % 8;
      const auto v = static_cast<uint16_t>(
          zero ? 0 : (rng() & 0x8000u) | (exponent << (half ? 10 : 7)) | (rng() & 0x7Fu));
      std::memcpy(at, &v, 2);
    }
  }
};

struct BagData {
  std::vector<int32_t> ids;
  std::vector<int32_t> offsets;
  std::vector<float> weights;
  Bags bags;

  BagData(std::mt19937& rng, int64_t rows, int64_t table_rows, bool one_hot, bool weighted) {
    offsets.push_back(0);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t n = one_hot ? 1 : (rng() % 4 == 0 ? 0 : rng() % 9);
      for (int64_t i = 0; i < n; ++i) {
        ids.push_back(static_cast<int32_t>(rng() % static_cast<uint64_t>(table_rows)));
        weights.push_back(std::uniform_real_distribution<float>(0.1f, 2)(rng));
      }
      offsets.push_back(static_cast<int32_t>(ids.size()));
    }
    bags = {ids.data(), one_hot ? nullptr : offsets.data(), weighted && !one_hot ? weights.data() : nullptr,
            1, rows};
  }
};

void check_buffers(const std::vector<float>& got, const std::vector<float>& want, float tolerance) {
  int64_t bad = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(want[i]) && std::isnan(got[i])) continue;  // never written by either
    if (!(std::fabs(got[i] - want[i]) <= tolerance * std::fmax(1.0f, std::fabs(want[i])))) ++bad;
  }
  CHECK(bad == 0);
}

Tensor tensor_over(std::vector<float>& v, int64_t rows, int64_t stride, int64_t n) {
  Tensor t{v.data(), rows, stride, {}};
  t.dims.rank = 1;
  t.dims.d[0] = n;
  return t;
}

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
  for (const cpu::Isa isa : {cpu::Isa::kScalar, cpu::Isa::kAvx2, cpu::Isa::kAvx512}) {
    if (!cpu::isa_supported(isa)) continue;
    const cpu::Functions& f = cpu::functions(isa);
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kI8}) {
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
