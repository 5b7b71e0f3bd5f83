// A Dense op for tests of its implementations, with its float64 result, and a tuning table that forces one.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "support/typed_op.hpp"

namespace dpi::test::gemm {

using kernels::DenseSegment;
using kernels::DType;
using kernels::UnaryKind;

inline constexpr const char* kPrecisions[] = {"fp32", "tf32", "fp16", "bf16"};

struct Impl {
  const char* name;
  int32_t precision;
  const char* tile;  // "-" = none
};

struct Shape {
  int64_t rows, in, out;
};

/// A table that makes `impl` the choice for one layer; gone with the object.
struct Forced {
  std::string path;
  Forced(const Impl& impl, const Shape& s, bool fused) {
    path = (std::filesystem::temp_directory_path() / "dpi_tuning_XXXXXX").string();
    const int fd = mkstemp(path.data());
    REQUIRE(fd >= 0);
    std::FILE* f = fdopen(fd, "w");
    std::fputs("dpi-tuning 1\ndevice *\ncapability 0\ncublaslt 0\n", f);
    // A line serves calls of at most four times its rows.
    for (int64_t rows = 1; rows <= 4 * s.rows; rows *= 4)
      std::fprintf(f, "%s %s %lld %lld %lld %s %s - 1.0\n", kPrecisions[impl.precision],
                   fused ? "fused" : "plain", static_cast<long long>(s.out), static_cast<long long>(s.in),
                   static_cast<long long>(rows), impl.name, impl.tile);
    std::fclose(f);
  }
  ~Forced() { std::remove(path.c_str()); }
  Forced(const Forced&) = delete;
  Forced& operator=(const Forced&) = delete;
};

/// A Dense op with its float64 result.
struct Layer {
  TypedOp op;
  std::vector<DenseSegment> segments;
  kernels::DenseAttrs attrs;
  TypedValue weight, bias, slope;

  struct Form {
    DType x = DType::kF32;
    DType other = DType::kF32;  // mul, add, dst
    bool fused = false;         // two segments, mul and add; else bias and ReLU
    int64_t padding = 0;
    size_t offset = 0;
  };

  Layer(const Shape& s, const Form& f) {
    weight = typed_value(s.out, s.in, DType::kF32, 11);
    bias = typed_value(1, s.out, DType::kF32, 12);
    slope = typed_value(1, s.out, DType::kF32, 13);
    op.inputs.push_back(typed_value(s.rows, s.in, f.x, 14, f.padding, f.offset));
    op.output = typed_value(s.rows, s.out, f.other, 0, f.padding, f.offset);
    DenseSegment g;
    g.act.kind = f.fused ? UnaryKind::kPrelu : UnaryKind::kRelu;
    g.end = f.fused ? s.out / 2 : s.out;
    segments.push_back(g);
    if (f.fused) {
      g.begin = g.end;
      g.end = s.out;
      g.act.kind = UnaryKind::kSigmoid;
      segments.push_back(g);
      op.inputs.push_back(typed_value(s.rows, s.out, f.other, 15, f.padding, f.offset));
      op.inputs.push_back(typed_value(s.rows, s.out, f.x, 16));
    }
    attrs = {segments.data(), static_cast<int32_t>(segments.size())};
    op.attrs = &attrs;
    op.params = {{weight.data.data(), {2, {s.out, s.in}}}, {bias.data.data(), {1, {s.out}}}};
    if (f.fused) op.params.push_back({slope.data.data(), {1, {s.out}}});
  }
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  double activated(double v, size_t column) const {
    if (segments.size() == 1) return v < 0 ? 0 : v;
    if (static_cast<int64_t>(column) < segments[0].end) return v < 0 ? slope.data[column] * v : v;
    return 1 / (1 + std::exp(-v));
  }

  /// The largest error in units of what a product of the precision may have, over all elements: at most 1;
  /// infinite where a value is NaN or values are missing. `operand`: relative rounding of one operand.
  double error(const std::vector<float>& got, double operand) const {
    const auto in = static_cast<size_t>(weight.width());
    const auto out = static_cast<size_t>(op.output.width());
    double most = got.size() == static_cast<size_t>(op.output.rows) * out ? 0 : INFINITY;
    for (size_t i = 0; i < got.size(); ++i) {
      const size_t r = i / out;
      const size_t c = i % out;
      double sum = bias.data[c];
      double size = std::fabs(sum);
      for (size_t k = 0; k < in; ++k) {
        const double term = double{op.inputs[0].data[r * in + k]} * weight.data[c * in + k];
        sum += term;
        size += std::fabs(term);
      }
      double want = activated(sum, c);
      double factor = 1;
      if (op.inputs.size() > 1) {
        factor = op.inputs[1].data[i];
        want = want * factor + op.inputs[2].data[i];
      }
      // Both operands rounded, float32 sums, and the rounding of the stored element.
      const double stored = op.output.type == DType::kF32   ? 1e-7
                            : op.output.type == DType::kF16 ? 0x1p-11
                                                            : 0x1p-8;
      const double may =
          (2.1 * operand + 5e-7) * size * std::fabs(factor) + (stored + 2e-7) * (std::fabs(want) + 1e-3);
      const double e = std::fabs(got[i] - want) / may;
      if (!(e <= most)) most = std::isnan(e) ? INFINITY : e;
    }
    return most;
  }
};

/// Half a unit in the last place of the operands: exact enough, tf32, fp16, bf16.
inline double operand_error(int32_t precision, const std::string& impl) {
  if (impl.find("simt") != std::string::npos || precision == 0) return 0;
  return precision == 3 ? 0x1p-9 : 0x1p-11 * (precision == 2 ? 1.01 : 1);
}

}  // namespace dpi::test::gemm
