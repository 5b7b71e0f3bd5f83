// AMX: the model of tile registers, and products compiled for it, beside the plain definition of the manual
// and, where this machine has such registers, beside the processor's bytes.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <dpi/kernels/narrow.hpp>
#include <dpi/kernels/row_decode.hpp>

#include "kernels/cpu/pack_int8.hpp"
#include "kernels/cpu/tables.hpp"
#include "kernels/cpu/tile_permission.hpp"
#include "kernels/emu/tile_model.hpp"

namespace dpi::test::tile_test {
namespace {

using namespace dpi::kernels;
using cpu::TileConfig;

std::mt19937& rng() {
  static std::mt19937 engine(20261129);
  return engine;
}

int64_t below(int64_t n) { return static_cast<int64_t>(rng()() % static_cast<uint64_t>(n)); }

float float_of(uint32_t bits) { return std::bit_cast<float>(bits); }

/// Equal to the bit; one NaN is as good as another.
bool same(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

int64_t differing(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return -1;
  int64_t n = 0;
  for (size_t i = 0; i < a.size(); ++i) n += !same(a[i], b[i]);
  return n;
}

/// A product's functions for one set.
struct Set {
  int64_t (*words)(int64_t n, int64_t k);
  void (*pack)(const float* weight, int64_t n, int64_t k, uint32_t* packed);
  int64_t (*scratch)(int64_t rows, int64_t k);
  void (*gemm)(const cpu::GemmCall& c);
};

const Set kModelBf16 = {cpu::tile_model::gemm_bf16_words, cpu::tile_model::gemm_bf16_pack,
                        cpu::tile_model::gemm_bf16_scratch, cpu::tile_model::gemm_bf16};
const Set kModelInt8 = {cpu::tile_model::gemm_int8_words, cpu::tile_model::gemm_int8_pack,
                        cpu::tile_model::gemm_int8_scratch, cpu::tile_model::gemm_int8};

bool has_amx() { return cpu::isa_supported(cpu::Isa::kAmx) && cpu::ask_for_tiles(); }

Set real_bf16() {
  const cpu::Functions& f = cpu::functions(cpu::Isa::kAmx);
  return {f.gemm_bf16_words, f.gemm_bf16_pack, f.gemm_bf16_scratch, f.gemm_bf16};
}
Set real_int8(cpu::Isa isa) {
  const cpu::Functions& f = cpu::functions(isa);
  return {f.gemm_int8_words, f.gemm_int8_pack, f.gemm_int8_scratch, f.gemm_int8};
}

struct Layer {
  int64_t m, n, k;
  std::vector<float> x, w, bias;
  int64_t relu_columns = 0;  // the first ones
  bool with_add = false;

  Layer(int64_t rows, int64_t out, int64_t in) : m(rows), n(out), k(in) {
    std::normal_distribution<float> normal(0, 1);
    for (auto* v : {&x, &w, &bias}) {
      v->resize(static_cast<size_t>(v == &x ? m * k : v == &w ? n * k : n));
      for (float& f : *v) f = normal(rng());
    }
  }

  std::vector<float> run(const Set& s, int64_t first, int64_t rows, int32_t parts = 1) const {
    constexpr uint32_t kGuard = 0x7fc12345u;
    std::vector<uint32_t> packed(static_cast<size_t>(s.words(n, k)));
    s.pack(w.data(), n, k, packed.data());
    const auto words = static_cast<size_t>(s.scratch(rows, k)) / 4;
    std::vector<uint32_t> scratch(words + 2, kGuard);
    std::vector<float> dst(static_cast<size_t>(rows * n), NAN), add(static_cast<size_t>(rows * n));
    for (size_t i = 0; i < add.size(); ++i) add[i] = static_cast<float>(static_cast<int64_t>(i) % n) * 0.5f;
    cpu::GemmCall c;
    c.x = x.data() + first * k;
    c.packed = packed.data();
    c.scratch = scratch.data() + 1;
    c.bias = bias.data();
    c.add = with_add ? add.data() : nullptr;
    c.dst = dst.data();
    c.m = rows;
    c.n = c.ldd = c.ld_add = n;
    c.k = c.ldx = k;
    const DenseSegment segments[] = {{{UnaryKind::kRelu, 0, 0}, 0, relu_columns},
                                     {{UnaryKind::kIdentity, 0, 0}, relu_columns, n}};
    c.segments = segments;
    c.n_segments = relu_columns == 0 ? 0 : relu_columns == n ? 1 : 2;
    c.parts = parts;
    for (c.part = parts - 1; c.part >= 0; --c.part) s.gemm(c);
    CHECK(scratch.front() == kGuard);
    CHECK(scratch.back() == kGuard);
    return dst;
  }

  std::vector<float> finished(std::vector<float> sums) const {
    for (size_t i = 0; i < sums.size(); ++i) {
      const auto col = i % static_cast<size_t>(n);
      sums[i] += bias[col];
      if (static_cast<int64_t>(col) < relu_columns && sums[i] < 0) sums[i] = 0;
      if (with_add) sums[i] += static_cast<float>(col) * 0.5f;
    }
    return sums;
  }
};

float bf16(float v) {
  return std::fabs(v) < 0x1p-126f ? std::copysign(0.0f, v) : bf16_to_float(float_to_bf16(v));
}

/// By the manual's words alone: 16 even terms, 16 odd ones, their sum to the sum of the steps before.
std::vector<float> defined_bf16(const Layer& p) {
  const auto at = [&](const std::vector<float>& v, int64_t row, int64_t i) {
    return i < p.k ? bf16(v[static_cast<size_t>(row * p.k + i)]) : 0.0f;
  };
  std::vector<float> sums;
  for (int64_t r = 0; r < p.m; ++r) {
    for (int64_t c = 0; c < p.n; ++c) {
      float sum = 0;
      for (int64_t k = 0; k < p.k; k += 32) {
        float half[2] = {0, 0};
        for (int64_t i = 0; i < 32; ++i)
          half[i % 2] = emu::tile_fma(at(p.x, r, k + i), at(p.w, c, k + i), half[i % 2]);
        sum = emu::tile_add(sum, emu::tile_add(half[0], half[1]));
      }
      sums.push_back(sum);
    }
  }
  return p.finished(sums);
}

std::vector<float> defined_int8(const Layer& p) {
  std::vector<float> sums;
  for (int64_t r = 0; r < p.m; ++r) {
    float most = 0;
    bool finite = true;
    for (int64_t i = 0; i < p.k; ++i) {
      const float v = p.x[static_cast<size_t>(r * p.k + i)];
      finite = finite && std::isfinite(v);
      most = std::max(most, std::fabs(v));
    }
    const float scale = !finite ? NAN : most < 1e-30f ? 0 : most / 127.0f;
    for (int64_t c = 0; c < p.n; ++c) {
      const float* const column = p.w.data() + c * p.k;
      const float of_column = cpu::int8_scale(column, p.k);
      int64_t sum = 0;
      for (int64_t i = 0; i < p.k && scale > 0; ++i) {
        const auto q =
            static_cast<int64_t>(std::nearbyint(p.x[static_cast<size_t>(r * p.k + i)] * (1.0f / scale)));
        sum += q * cpu::int8_of(column[i], of_column);
      }
      sums.push_back(static_cast<float>(sum) * (of_column * scale));
    }
  }
  return p.finished(sums);
}

/// Layers of sizes around those of registers, blocks and steps.
template <class Body>
void for_layers(Body&& body) {
  const int64_t sizes[] = {1, 2, 15, 16, 17, 31, 32, 33, 47, 48, 64, 65, 97};
  for (const int64_t m : {1, 2, 15, 16, 17, 31, 32, 33, 48, 50, 70}) {
    for (int i = 0; i < 3; ++i) {
      Layer p(m, sizes[below(13)], sizes[below(13)] + below(3) * 64);
      p.relu_columns = below(3) * p.n / 2;
      p.with_add = below(2) == 0;
      CAPTURE(p.m);
      CAPTURE(p.n);
      CAPTURE(p.k);
      body(p);
    }
  }
}

TileConfig good_config() {
  TileConfig c{};
  c.palette = 1;
  for (int t = 0; t < 3; ++t) {
    c.rows[t] = t == 2 ? 4 : 3;
    c.row_bytes[t] = t == 1 ? 16 : 8;  // sums 3 x 2 words, A 3 x 4 words, B 4 x 2 words
  }
  return c;
}

std::string fault_of(const TileConfig& c) {
  emu::tile_release();
  emu::clear_tile_fault();
  emu::tile_configure(c);
  const char* const fault = emu::tile_fault();
  emu::clear_tile_fault();
  return fault == nullptr ? "" : fault;
}

}  // namespace

TEST_CASE("tiles: a wrong configuration faults and leaves nothing configured") {
  CHECK(fault_of(good_config()).empty());
  CHECK(emu::tiles_in_use());
  struct Wrong {
    void (*change)(TileConfig* c);
    const char* says;
  };
  const Wrong wrong[] = {{[](TileConfig* c) { c->palette = 2; }, "palette"},
                         {[](TileConfig* c) { c->palette = 0; }, "palette"},
                         {[](TileConfig* c) { c->reserved[13] = 1; }, "reserved"},
                         {[](TileConfig* c) { c->rows[1] = 17; }, "16 rows"},
                         {[](TileConfig* c) { c->row_bytes[1] = 68; }, "64 bytes"},
                         {[](TileConfig* c) { c->rows[1] = 0; }, "bytes without rows"},
                         {[](TileConfig* c) { c->row_bytes[1] = 0; }, "rows without bytes"},
                         {[](TileConfig* c) { c->rows[8] = 1; }, "eight registers"}};
  for (const Wrong& w : wrong) {
    TileConfig c = good_config();
    w.change(&c);
    CAPTURE(w.says);
    CHECK(fault_of(c).find(w.says) != std::string::npos);
    CHECK_FALSE(emu::tiles_in_use());
  }
}

TEST_CASE("tiles: instructions fault without registers, with one twice, and where shapes do not fit") {
  const auto fault = [](auto&& body) {
    emu::clear_tile_fault();
    body();
    return std::string(emu::tile_fault() == nullptr ? "" : emu::tile_fault());
  };
  emu::tile_release();
  CHECK(fault([] { emu::tile_zero(0); }).find("nothing is configured") != std::string::npos);
  emu::tile_configure(good_config());
  CHECK(fault([] { emu::tile_multiply_bf16(0, 1, 2); }).empty());
  CHECK(fault([] { emu::tile_multiply_int8(0, 1, 2, true, true); }).empty());
  CHECK(fault([] { emu::tile_zero(3); }).find("not configured") != std::string::npos);
  CHECK(fault([] { emu::tile_multiply_bf16(0, 1, 1); }).find("twice") != std::string::npos);
  const auto shape = [&](int t, int rows, int bytes) {
    TileConfig c = good_config();
    c.rows[t] = static_cast<uint8_t>(rows);
    c.row_bytes[t] = static_cast<uint16_t>(bytes);
    emu::tile_configure(c);
    return fault([] { emu::tile_multiply_bf16(0, 1, 2); });
  };
  CHECK(shape(0, 4, 8).find("differ in rows") != std::string::npos);
  CHECK(shape(0, 3, 12).find("differ in columns") != std::string::npos);
  CHECK(shape(1, 3, 12).find("not B's rows") != std::string::npos);
  CHECK(shape(1, 3, 14).find("whole words") != std::string::npos);
  emu::tile_release();
  emu::clear_tile_fault();
}

TEST_CASE("tiles: a register holds its rows only, and zeros beyond") {
  emu::tile_configure(good_config());
  std::vector<uint8_t> bytes(64, 7), got(64, 9);
  emu::tile_load(0, bytes.data(), 16);
  emu::tile_store(0, got.data(), 20);
  for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == (i < 48 && i % 20 < 8 ? 7 : 9));
  emu::tile_zero(0);
  emu::tile_store(0, got.data(), 20);
  CHECK(got[47] == 0);
  emu::tile_release();
}

TEST_CASE("tiles: subnormals are zeros, and what rounding lifts to 2^-126 stays") {
  CHECK(same(emu::tile_fma(0x1p-127f, 0x1p100f, 1), 1));
  CHECK(same(emu::tile_fma(0x1p-100f, -0x1p-40f, 0), -0.0f));
  CHECK(same(emu::tile_add(-0x1p-127f, -0x1p-128f), -0.0f));
  CHECK(same(emu::tile_add(0x1p-126f, -0x1.8p-126f), -0.0f));
  for (int quarters = 0; quarters < 8; ++quarters) {  // 2^-126 less quarters of the place below its last one
    const float lifted = emu::tile_fma(-0.25f * static_cast<float>(quarters) * 0x1p-75f, 0x1p-75f, 0x1p-126f);
    CHECK(same(lifted, quarters <= 2 ? 0x1p-126f : 0.0f));
  }
  CHECK(std::isnan(emu::tile_fma(INFINITY, 0, 1)));
  CHECK(same(emu::tile_fma(0x1p100f, 0x1p100f, 0), INFINITY));
}

TEST_CASE("tiles: bytes with and without a sign, modulo 2^32") {
  emu::tile_configure(good_config());
  std::vector<uint8_t> a(48), b(32);
  for (auto* v : {&a, &b}) {
    for (uint8_t& byte : *v) byte = static_cast<uint8_t>(rng()());
  }
  for (const bool a_signed : {false, true}) {
    for (const bool b_signed : {false, true}) {
      std::vector<int32_t> sums = {1, -2, 2147483647, -2147483647, 5, 6}, got(6);
      emu::tile_load(0, sums.data(), 8);
      emu::tile_load(1, a.data(), 16);
      emu::tile_load(2, b.data(), 8);
      emu::tile_multiply_int8(0, 1, 2, a_signed, b_signed);
      emu::tile_store(0, got.data(), 8);
      const auto value = [](uint8_t byte, bool is_signed) {
        return int64_t{byte} - (is_signed && byte >= 128 ? 256 : 0);
      };
      for (size_t m = 0; m < 3; ++m) {
        for (size_t n = 0; n < 2; ++n) {
          int64_t want = sums[m * 2 + n];
          for (size_t k = 0; k < 16; ++k)
            want += value(a[m * 16 + k], a_signed) * value(b[k / 4 * 8 + n * 4 + k % 4], b_signed);
          CHECK(static_cast<uint32_t>(got[m * 2 + n]) == static_cast<uint32_t>(want));
        }
      }
    }
  }
  emu::tile_release();
}

TEST_CASE("tiles: products of the model have the definition's bytes, in any batch and any parts") {
  emu::clear_tile_fault();
  for_layers([](const Layer& p) {
    const std::vector<float> bf = p.run(kModelBf16, 0, p.m), i8 = p.run(kModelInt8, 0, p.m);
    CHECK(differing(bf, defined_bf16(p)) == 0);
    CHECK(differing(i8, defined_int8(p)) == 0);
    const int64_t first = below(p.m), rows = std::min<int64_t>(p.m - first, 1 + below(20));
    const auto rows_of = [&](const std::vector<float>& all) {
      return std::vector<float>(all.begin() + first * p.n, all.begin() + (first + rows) * p.n);
    };
    CHECK(differing(p.run(kModelBf16, first, rows), rows_of(bf)) == 0);
    CHECK(differing(p.run(kModelInt8, first, rows), rows_of(i8)) == 0);
    const auto parts = static_cast<int32_t>(2 + below(3));
    CHECK(differing(p.run(kModelBf16, 0, p.m, parts), bf) == 0);
    CHECK(differing(p.run(kModelInt8, 0, p.m, parts), i8) == 0);
    CHECK_FALSE(emu::tiles_in_use());
  });
  CHECK(emu::tile_fault() == nullptr);
}

TEST_CASE("tiles: the processor's products have the model's bytes") {
  if (!has_amx()) return;
  for_layers([](const Layer& p) {
    CHECK(differing(p.run(real_bf16(), 0, p.m), p.run(kModelBf16, 0, p.m)) == 0);
    CHECK(differing(p.run(real_int8(cpu::Isa::kAmx), 0, p.m), p.run(kModelInt8, 0, p.m)) == 0);
    if (cpu::isa_supported(cpu::Isa::kAvx512Vnni))
      CHECK(differing(p.run(real_int8(cpu::Isa::kAvx512Vnni), 0, p.m), p.run(kModelInt8, 0, p.m)) == 0);
  });
}

TEST_CASE("tiles: numbers at the ends of what float32 and bf16 hold") {
  for (int i = 0; i < 60; ++i) {
    Layer p(1 + below(20), 1 + below(40), 1 + below(80));
    const int base = i % 3 == 0 ? 63 : i % 3 == 1 ? 1 : 120, span = i % 3 == 2 ? 134 : 4;
    const auto extreme = [&] {
      const auto exponent = static_cast<uint32_t>(base + below(span));
      return float_of((static_cast<uint32_t>(rng()()) & 0x807fffffu) | exponent << 23);
    };
    for (float& v : p.x) v = extreme();
    for (float& v : p.w) v = extreme();
    for (float& v : p.bias) v = 0;
    const std::vector<float> model = p.run(kModelBf16, 0, p.m);
    CHECK(differing(model, defined_bf16(p)) == 0);
    if (has_amx()) CHECK(differing(model, p.run(real_bf16(), 0, p.m)) == 0);
  }
}

TEST_CASE("tiles: sums of int8 at the limits of what bytes hold, up to the deepest layer") {
  for (const float x_sign : {1.0f, -1.0f}) {
    for (const float w_sign : {1.0f, -1.0f}) {
      for (const int64_t k : {int64_t{63}, int64_t{64}, int64_t{65}, cpu::kInt8Depth}) {
        Layer p(k == cpu::kInt8Depth ? 3 : 18, 17, k);
        CAPTURE(p.k);
        for (float& v : p.x) v = x_sign;
        for (float& v : p.w) v = w_sign;
        p.x[5] = 0;
        const std::vector<float> model = p.run(kModelInt8, 0, p.m);
        CHECK(differing(model, defined_int8(p)) == 0);
        if (has_amx()) CHECK(differing(model, p.run(real_int8(cpu::Isa::kAmx), 0, p.m)) == 0);
      }
    }
  }
}

TEST_CASE("tiles: a row that is not finite leaves the others as they are") {
  for (const float special : {NAN, INFINITY, -INFINITY}) {
    for (int i = 0; i < 10; ++i) {
      Layer p(2 + below(40), 1 + below(40), 1 + below(100));
      const int64_t row = below(p.m);
      const auto special_at = static_cast<size_t>(row * p.k + below(p.k));
      std::vector<float> plain = p.run(kModelBf16, 0, p.m), plain8 = p.run(kModelInt8, 0, p.m);
      p.x[special_at] = special;
      const std::vector<float> bf = p.run(kModelBf16, 0, p.m), i8 = p.run(kModelInt8, 0, p.m);
      CHECK(differing(bf, defined_bf16(p)) == 0);
      CHECK(differing(i8, defined_int8(p)) == 0);
      for (int64_t c = 0; c < p.n; ++c) {
        const auto at = static_cast<size_t>(row * p.n + c);
        CHECK_FALSE(std::isfinite(bf[at]));
        CHECK(std::isnan(i8[at]));
        plain[at] = bf[at];
        plain8[at] = i8[at];
      }
      CHECK(differing(bf, plain) == 0);
      CHECK(differing(i8, plain8) == 0);
    }
  }
}

TEST_CASE("tiles: more rows than a block") {
  Layer p(300, 18, 1500);
  const auto check = [&](const Set& s) {
    const std::vector<float> all = p.run(s, 0, p.m), last = p.run(s, 299, 1);
    CHECK(differing(last, {all.end() - 18, all.end()}) == 0);
    return all;
  };
  CHECK(kModelBf16.scratch(300, p.k) < 2 * kModelBf16.scratch(150, p.k));
  const std::vector<float> model = check(kModelBf16);
  if (has_amx()) CHECK(differing(check(real_bf16()), model) == 0);
}

}  // namespace dpi::test::tile_test
