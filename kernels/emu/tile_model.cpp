#include "kernels/emu/tile_model.hpp"

#include <cmath>
#include <cstring>

namespace dpi::emu {

namespace {

using kernels::cpu::kTileRegisterRows;
using kernels::cpu::kTileRegisters;
using kernels::cpu::kTileRowBytes;
using kernels::cpu::TileConfig;

struct Register {
  int rows = 0, row_bytes = 0;  // 0: not configured
  uint8_t bytes[kTileRegisterRows][kTileRowBytes] = {};
};

struct State {
  bool in_use = false;
  Register registers[kTileRegisters];
  const char* fault = nullptr;
};

thread_local State t_state;

bool refuse(const char* why) {
  if (t_state.fault == nullptr) t_state.fault = why;
  return false;
}

/// #GP(0) of LDTILECFG.
const char* refusal_of(const TileConfig& c) {
  if (c.palette != 1) return "#GP: the palette is not 1";
  for (const uint8_t byte : c.reserved) {
    if (byte != 0) return "#GP: a reserved byte of the configuration is not 0";
  }
  for (int t = 0; t < 16; ++t) {
    const int rows = c.rows[t], bytes = c.row_bytes[t];
    if (t >= kTileRegisters && (rows != 0 || bytes != 0)) return "#GP: there are eight registers";
    if (rows > kTileRegisterRows) return "#GP: a register has 16 rows";
    if (bytes > kTileRowBytes) return "#GP: a row has 64 bytes";
    if ((rows == 0) != (bytes == 0)) return "#GP: rows without bytes, or bytes without rows";
  }
  return nullptr;
}

bool usable(int t) {
  if (!t_state.in_use) return refuse("#UD: nothing is configured");
  if (t < 0 || t >= kTileRegisters) return refuse("#UD: there are eight registers");
  if (t_state.registers[t].rows == 0) return refuse("#UD: the register is not configured");
  return true;
}

bool can_multiply(int sums, int a, int b) {
  if (!usable(sums) || !usable(a) || !usable(b)) return false;
  if (sums == a || sums == b || a == b) return refuse("#UD: a register is named twice");
  const Register &s = t_state.registers[sums], &x = t_state.registers[a], &w = t_state.registers[b];
  if (s.row_bytes % 4 != 0 || x.row_bytes % 4 != 0 || w.row_bytes % 4 != 0)
    return refuse("#UD: rows are not whole words");
  if (s.rows != x.rows) return refuse("#UD: sums and A differ in rows");
  if (s.row_bytes != w.row_bytes) return refuse("#UD: sums and B differ in columns");
  if (x.row_bytes / 4 != w.rows) return refuse("#UD: A's columns are not B's rows");
  return true;
}

/// Instructions that write a register leave zeros beyond its configured rows and bytes.
void clear_rest(Register& r) {
  for (int i = 0; i < kTileRegisterRows; ++i) {
    const int used = i < r.rows ? r.row_bytes : 0;
    std::memset(r.bytes[i] + used, 0, static_cast<size_t>(kTileRowBytes - used));
  }
}

template <class T>
T element(const Register& r, int row, int i) {
  T v;
  std::memcpy(&v, r.bytes[row] + static_cast<size_t>(i) * sizeof(T), sizeof v);
  return v;
}

template <class T>
void set_element(Register& r, int row, int i, T v) {
  std::memcpy(r.bytes[row] + static_cast<size_t>(i) * sizeof(T), &v, sizeof v);
}

float bf16_at(const Register& r, int row, int i) {
  const uint32_t bits = static_cast<uint32_t>(element<uint16_t>(r, row, i)) << 16;
  float v;
  std::memcpy(&v, &bits, sizeof v);
  return v;
}

float without_subnormal(float v) { return std::fabs(v) < 0x1p-126f ? std::copysign(0.0f, v) : v; }

/// `rounded` is p + c as float32 has it. With a wider exponent, what lies below 2^-126 by more than half of
/// its own last place would be less.
float flushed(float rounded, double p, double c) {
  if (std::fabs(rounded) != 0x1p-126f) return without_subnormal(rounded);
  const double sum = p + c, part = sum - p, rest = (p - (sum - part)) + (c - part);  // sum + rest is exact
  const double size = std::fabs(sum), beyond = sum < 0 ? -rest : rest;
  constexpr double kLeast = 0x1p-126 * (1 - 0x1p-25);
  return size < kLeast || (size == kLeast && beyond < 0) ? std::copysign(0.0f, rounded) : rounded;
}

}  // namespace

const char* tile_fault() { return t_state.fault; }
void clear_tile_fault() { t_state.fault = nullptr; }
bool tiles_in_use() { return t_state.in_use; }

float tile_fma(float a, float b, float c) {
  a = without_subnormal(a);
  b = without_subnormal(b);
  c = without_subnormal(c);
  return flushed(std::fma(a, b, c), static_cast<double>(a) * b, c);
}

float tile_add(float a, float b) {
  a = without_subnormal(a);
  b = without_subnormal(b);
  return flushed(a + b, a, b);
}

void tile_configure(const TileConfig& c) {
  if (const char* why = refusal_of(c); why != nullptr) {
    refuse(why);
    return;
  }
  t_state.in_use = true;
  for (int t = 0; t < kTileRegisters; ++t) {
    t_state.registers[t] = Register{};
    t_state.registers[t].rows = c.rows[t];
    t_state.registers[t].row_bytes = c.row_bytes[t];
  }
}

void tile_release() {
  t_state.in_use = false;
  for (Register& r : t_state.registers) r = Register{};
}

void tile_zero(int t) {
  if (usable(t)) std::memset(t_state.registers[t].bytes, 0, sizeof t_state.registers[t].bytes);
}

void tile_load(int t, const void* at, int64_t step) {
  if (!usable(t)) return;
  Register& r = t_state.registers[t];
  for (int i = 0; i < r.rows; ++i)
    std::memcpy(r.bytes[i], static_cast<const char*>(at) + i * step, static_cast<size_t>(r.row_bytes));
  clear_rest(r);
}

void tile_store(int t, void* at, int64_t step) {
  if (!usable(t)) return;
  const Register& r = t_state.registers[t];
  for (int i = 0; i < r.rows; ++i)
    std::memcpy(static_cast<char*>(at) + i * step, r.bytes[i], static_cast<size_t>(r.row_bytes));
}

void tile_multiply_bf16(int sums, int a, int b) {
  if (!can_multiply(sums, a, b)) return;
  Register& s = t_state.registers[sums];
  const Register &x = t_state.registers[a], &w = t_state.registers[b];
  for (int m = 0; m < s.rows; ++m) {
    for (int n = 0; n < s.row_bytes / 4; ++n) {
      float even = 0, odd = 0;
      for (int k = 0; k < w.rows; ++k) {
        even = tile_fma(bf16_at(x, m, 2 * k), bf16_at(w, k, 2 * n), even);
        odd = tile_fma(bf16_at(x, m, 2 * k + 1), bf16_at(w, k, 2 * n + 1), odd);
      }
      set_element(s, m, n, tile_add(element<float>(s, m, n), tile_add(even, odd)));
    }
  }
  clear_rest(s);
}

void tile_multiply_int8(int sums, int a, int b, bool a_is_signed, bool b_is_signed) {
  if (!can_multiply(sums, a, b)) return;
  Register& s = t_state.registers[sums];
  const Register &x = t_state.registers[a], &w = t_state.registers[b];
  const auto byte = [](const Register& r, int row, int i, bool is_signed) {
    return is_signed ? int32_t{element<int8_t>(r, row, i)} : int32_t{element<uint8_t>(r, row, i)};
  };
  for (int m = 0; m < s.rows; ++m) {
    for (int n = 0; n < s.row_bytes / 4; ++n) {
      uint32_t sum = element<uint32_t>(s, m, n);  // modulo 2^32
      for (int k = 0; k < w.rows; ++k) {
        for (int i = 0; i < 4; ++i) {
          const int32_t term = byte(x, m, 4 * k + i, a_is_signed) * byte(w, k, 4 * n + i, b_is_signed);
          sum += static_cast<uint32_t>(term);
        }
      }
      set_element(s, m, n, sum);
    }
  }
  clear_rest(s);
}

}  // namespace dpi::emu
