// Element-wise functions over a run of floats: the common part of Unary, Binary, Elementwise, Dense's
// epilogue and Tail. Included by sources compiled per instruction set only.
#pragma once

#include <dpi/kernels/binary.hpp>
#include <dpi/kernels/unary.hpp>

#include "kernels/cpu/simd/vec.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

/// A run of floats: data[i * step], step 1, or 0 for one value repeated.
struct Span {
  const float* data;
  int64_t step;
};

DPI_INLINE Vec load_span(Span s, int64_t i, int64_t n) {
  return s.step == 0 ? Vec::all(s.data[0]) : load_n(s.data + i, n);
}

/// A unary function with its parameters for the columns of a run; data null = absent.
struct SpanUnary {
  UnaryAttrs attrs;
  Span p[3];
};

/// dst[i] = f(x[i]); dst may be x.
void unary_span(const SpanUnary& f, Span x, float* dst, int64_t n);

/// dst[i] = x[i] op y[i]; dst may be x or y.
void binary_span(BinaryKind kind, Span x, Span y, float* dst, int64_t n);

/// dst[i] = cond[i] is not 0 ? yes[i] : no[i]; dst may be any of them.
void where_span(Span cond, Span yes, Span no, float* dst, int64_t n);

}  // namespace dpi::kernels::cpu::DPI_ISA
