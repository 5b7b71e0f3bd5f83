// Compile as fiber.cpp: one lane reads and writes the registers of all, which lie on their stacks.
#include "kernels/emu/mma_emu.hpp"

#include <dpi/kernels/row_decode.hpp>

#include "kernels/emu/tensor_core.hpp"

namespace dpi::emu {

namespace {

constexpr int kLanes = 32;
constexpr int kRows = 16;
constexpr int kMostDepth = 16;

struct Registers {
  float* c;
  const uint32_t* a;
  const uint32_t* b;
};

struct Tile {
  float a[kRows][kMostDepth];
  float b[kMostDepth][kTensorColumns];
  float c[kRows][kTensorColumns];
};

float float_of(uint32_t bits) {
  float v;
  std::memcpy(&v, &bits, sizeof(v));
  return v;
}

/// The elements of one register: 1 of tf32, 2 of 16 bits; `to` lies `apart` floats from one to the next.
void unpack(uint32_t r, MmaElement element, float* to, int apart) {
  if (element == MmaElement::kTf32) {
    *to = float_of(r & 0xffffe000u);
    return;
  }
  for (int i = 0; i < 2; ++i) {
    const auto bits = static_cast<uint16_t>(r >> (16 * i));
    to[i * apart] = element == MmaElement::kF16 ? kernels::half_to_float(bits) : kernels::bf16_to_float(bits);
  }
}

void gather(const Registers* lanes, MmaElement element, Tile* t) {
  const int each = element == MmaElement::kTf32 ? 1 : 2;
  for (int lane = 0; lane < kLanes; ++lane) {
    const Registers& r = lanes[lane];
    const int g = lane / 4;
    for (int half = 0; half < 2; ++half) {
      const int k = half * 4 * each + lane % 4 * each;
      for (int i = 0; i < 2; ++i) {
        unpack(r.a[2 * half + i], element, &t->a[g + 8 * i][k], 1);
        unpack(r.b[2 * i + half], element, &t->b[k][8 * i + g], kTensorColumns);
      }
    }
    for (int i = 0; i < 8; ++i) t->c[g + i / 2 % 2 * 8][i / 4 * 8 + lane % 4 * 2 + i % 2] = r.c[i];
  }
}

void scatter(const Tile& t, const Registers* lanes) {
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < 8; ++i)
      lanes[lane].c[i] = t.c[lane / 4 + i / 2 % 2 * 8][i / 4 * 8 + lane % 4 * 2 + i % 2];
  }
}

}  // namespace

void mma(float (&c)[8], const uint32_t (&a)[4], const uint32_t (&b)[4], MmaElement element, Site at) {
  const Registers own{c, a, b};
  uint64_t brought[kLanes];
  exchange_many(reinterpret_cast<uintptr_t>(&own), 0, 1, kLanes, brought, "mma", at);
  if (lane() == 0) {
    Registers lanes[kLanes];
    for (int i = 0; i < kLanes; ++i) lanes[i] = *reinterpret_cast<const Registers*>(brought[i]);
    Tile t;
    gather(lanes, element, &t);
    for (int m = 0; m < kRows; ++m) {
      if (element == MmaElement::kTf32) {
        tensor_add_tf32(t.c[m], t.a[m], t.b, 8);
      } else {
        tensor_add_16(t.c[m], t.a[m], t.b, 16);
      }
    }
    scatter(t, lanes);
  }
  exchange_bits(0xffffffffu, 0, 0, "mma", at);
}

}  // namespace dpi::emu
