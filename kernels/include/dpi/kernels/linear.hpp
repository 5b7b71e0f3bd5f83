// Linear: y = W x + b over the last axis, per group, or over the field axis (FORMAT.md part 7, Linear).
#pragma once

#include <dpi/kernels/tensor.hpp>

namespace dpi::kernels {

enum class LinearAxis : int32_t { kLast = 0, kField = 1 };

struct LinearAttrs {
  int64_t groups = 1;
  LinearAxis axis = LinearAxis::kLast;
};

/// kLast, groups == 1: y[.., o] = weight[o, :] . x[.., :] + bias[o].   groups G > 1: x [.., G or 1, in], dst
/// [.., G, out]. kField: x [.., n, d], weight [out, n], bias [out], dst [.., out, d]; contracts n. x: [rows,
/// .., in]; dst: [rows, .., out]; weight [groups?, out, in]; bias [groups?, out] or null. dst aliases
/// nothing.
///
/// once, shared (kLast, groups == 1; data null when absent; not in the format, the plan makes them): once
/// [rows, n] is a vector that stands behind x in every place of a row: weight is [out, in + n] then. shared
/// [any rows, .., out] is what columns that are the same for many rows gave: row r adds its row row_map[r]
/// (row_map null: row r).
///
/// positions (kLast, groups == 1, with neither; data null when absent; made by the plan too): [rows, n] with
/// n the slices of x in a row: where it is 0, y's slice is 0 and x's is not read. scratch: in cpu only, and
/// there only with `once` or `positions`.
struct LinearArgs {
  LinearAttrs attrs;
  Tensor x;
  Param weight;
  Param bias;
  Tensor dst;
  Tensor once;
  Tensor shared;
  const int32_t* row_map = nullptr;
  void* scratch = nullptr;
  Tensor positions{};
};

namespace ref {
void linear(const LinearArgs& a);
}
namespace cpu {
void linear(const LinearArgs& a);
}

}  // namespace dpi::kernels
