// half_to_float, bf16_to_float and fp8_to_float against an independent reading of the formats, for every bit
// pattern, and where rows of i4, i2 and fp8 have their numbers.
#include <dpi/kernels/narrow.hpp>
#include <dpi/kernels/row_decode.hpp>

#include <cmath>
#include <initializer_list>
#include <vector>

#include <doctest/doctest.h>

namespace dpi::test::row_decode_test {
namespace {

double half_by_definition(uint32_t h) {
  const double sign = (h & 0x8000u) != 0 ? -1 : 1;
  const int exponent = static_cast<int>((h >> 10) & 31u);
  const double fraction = (h & 1023u) / 1024.0;
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  return exponent == 0 ? sign * std::ldexp(fraction, -14) : sign * std::ldexp(1 + fraction, exponent - 15);
}

bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

}  // namespace

TEST_CASE("row_decode: every binary16 value") {
  int wrong = 0;
  for (uint32_t h = 0; h < 65536; ++h)
    wrong += same(dpi::kernels::half_to_float(static_cast<uint16_t>(h)), half_by_definition(h)) ? 0 : 1;
  CHECK(wrong == 0);
}

TEST_CASE("row_decode: narrowing takes the nearest value there is, of finite ones a finite one") {
  using dpi::kernels::bf16_to_float;
  using dpi::kernels::float_to_bf16;
  using dpi::kernels::float_to_half;
  using dpi::kernels::half_to_float;
  int wrong = 0;
  for (uint32_t h = 0; h < 0x7c00; ++h) {  // a value, and what lies between it and the next
    const double here = half_by_definition(h), next = h == 0x7bff ? 65536.0 : half_by_definition(h + 1);
    const auto middle = static_cast<float>((here + next) / 2);
    const uint32_t even = h % 2 == 0 || h == 0x7bff ? h : h + 1;
    wrong += float_to_half(static_cast<float>(here)) == h ? 0 : 1;
    wrong += float_to_half(middle) == even ? 0 : 1;
    wrong += float_to_half(-std::nextafter(middle, 0.0f)) == (h | 0x8000u) ? 0 : 1;
    wrong += float_to_half(std::nextafter(middle, INFINITY)) == (h == 0x7bff ? h : h + 1) ? 0 : 1;
  }
  CHECK(wrong == 0);
  for (const float sign : {1.0f, -1.0f}) {
    CHECK(half_to_float(float_to_half(sign * 3e38f)) == sign * 65504.0f);
    CHECK(half_to_float(float_to_half(sign * INFINITY)) == sign * INFINITY);
    CHECK(bf16_to_float(float_to_bf16(sign * 3.4e38f)) == sign * 0x1.FEp127f);
    CHECK(bf16_to_float(float_to_bf16(sign * 0x1.FEp127f)) == sign * 0x1.FEp127f);
    CHECK(bf16_to_float(float_to_bf16(sign * INFINITY)) == sign * INFINITY);
  }
  CHECK(std::isnan(half_to_float(float_to_half(NAN))));
  CHECK(std::isnan(bf16_to_float(float_to_bf16(NAN))));
  CHECK(dpi::kernels::half_holds(65519.0f));
  CHECK_FALSE(dpi::kernels::half_holds(-65520.0f));
  CHECK(dpi::kernels::half_holds(INFINITY));
  CHECK(dpi::kernels::bf16_holds(0x1.FEp127f));
  CHECK_FALSE(dpi::kernels::bf16_holds(3.4e38f));
}

TEST_CASE("row_decode: every e4m3fn value, and what is nearest to them") {
  const auto by_definition = [](uint32_t b) {
    const double sign = (b & 0x80u) != 0 ? -1 : 1, fraction = (b & 7u) / 8.0;
    const int exponent = static_cast<int>((b >> 3) & 15u);
    if ((b & 0x7fu) == 0x7fu) return static_cast<double>(NAN);
    return exponent == 0 ? sign * std::ldexp(fraction, -6) : sign * std::ldexp(1 + fraction, exponent - 7);
  };
  int wrong = 0;
  for (uint32_t b = 0; b < 256; ++b)
    wrong += same(dpi::kernels::fp8_to_float(static_cast<uint8_t>(b)), by_definition(b)) ? 0 : 1;
  using dpi::kernels::float_to_fp8;
  for (uint32_t b = 0; b < 0x7e; ++b) {
    const auto here = static_cast<float>(by_definition(b)), next = static_cast<float>(by_definition(b + 1));
    const float middle = (here + next) / 2;
    wrong += float_to_fp8(here) == b && float_to_fp8(-here) == (b | 0x80u) ? 0 : 1;
    wrong += float_to_fp8(middle) == (b % 2 == 0 ? b : b + 1) ? 0 : 1;
    wrong += float_to_fp8(-std::nextafter(middle, 0.0f)) == (b | 0x80u) ? 0 : 1;
    wrong += float_to_fp8(std::nextafter(middle, INFINITY)) == b + 1 ? 0 : 1;
  }
  CHECK(wrong == 0);
  CHECK(float_to_fp8(463.9f) == 0x7e);
  CHECK(float_to_fp8(-1e30f) == 0xfe);
  CHECK(float_to_fp8(NAN) == 0x7f);
}

TEST_CASE("row_decode: numbers of i4, i2 and fp8, and the scale behind them") {
  using dpi::kernels::DType;
  const auto check = [](DType type, std::initializer_list<uint8_t> bytes, std::initializer_list<float> want) {
    std::vector<uint8_t> row(1, 0x55);  // rows need not be aligned
    row.insert(row.end(), bytes);
    dpi::kernels::TableView t;
    t.base = row.data() + 1;
    t.rows = 1;
    t.dim = static_cast<int32_t>(want.size());
    t.dtype = type;
    t.row_bytes = row_bytes_of(type, t.dim);
    REQUIRE(t.row_bytes == static_cast<int64_t>(bytes.size()));
    std::vector<float> got(want.size());
    decode_row(t, 0, got.data());
    CHECK(got == std::vector<float>(want));
  };
  // scale 2 (0x4000), offset -1 (0xbc00)
  check(DType::kI4, {0x21, 0xf3, 0x07, 0x00, 0x40, 0x00, 0xbc}, {1, 3, 5, 29, 13});
  check(DType::kI2, {0xe4, 0x02, 0x00, 0x40, 0x00, 0xbc}, {-1, 1, 3, 5, 3});
  // scale 0.5f, least to largest: 2^-9, 1, -448, 448
  check(DType::kFp8, {0x01, 0x38, 0xfe, 0x7e, 0x00, 0x00, 0x00, 0x3f}, {0x1p-10f, 0.5f, -224, 224});
}

TEST_CASE("row_decode: bfloat16 is the upper half of a float") {
  CHECK(dpi::kernels::bf16_to_float(0x3F80) == 1.0f);
  CHECK(dpi::kernels::bf16_to_float(0xC040) == -3.0f);
  CHECK(dpi::kernels::bf16_to_float(0x0001) == std::ldexp(1.0f, -133));
  CHECK(std::isnan(dpi::kernels::bf16_to_float(0x7FC0)));
}

TEST_CASE("row_decode: the nonzero rule adds in float32, in order") {
  const float rows[4][3] = {{0, 0, 0}, {1, -1, 0}, {1e8f, 1, -1e8f}, {1e8f, -1e8f, 1}};
  dpi::kernels::TableView t;
  t.base = rows;
  t.rows = 4;
  t.row_bytes = sizeof(rows[0]);
  t.dim = 3;
  CHECK_FALSE(row_is_nonzero(t, 0));
  CHECK_FALSE(row_is_nonzero(t, 1));
  CHECK_FALSE(row_is_nonzero(t, 2));
  CHECK(row_is_nonzero(t, 3));
}

}  // namespace dpi::test::row_decode_test
