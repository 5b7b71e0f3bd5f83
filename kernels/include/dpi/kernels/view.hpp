// View: ops that only move elements, and the row broadcast from shared to item rows (FORMAT.md parts 7 and
// 8).
#pragma once

#include <dpi/kernels/tensor.hpp>

namespace dpi::kernels {

enum class ViewKind : int32_t { kReshape = 0, kTranspose = 1, kSlice = 2, kIndexSelect = 3, kExpand = 4 };

/// reshape: dims. transpose: dims.d holds the permutation. slice: axis, begin, end. index_select: axis,
/// indices (owned by the plan, n_indices of them, each in range). expand: dims (extents of 1 repeat; dims
/// align at the right).
struct ViewAttrs {
  ViewKind kind = ViewKind::kReshape;
  int32_t axis = 0;
  int64_t begin = 0;
  int64_t end = 0;
  Dims dims;
  const int64_t* indices = nullptr;
  int64_t n_indices = 0;
};

/// dst aliases nothing.
struct ViewArgs {
  ViewAttrs attrs;
  Tensor x;
  Tensor dst;
};

/// dst[r] = x[row_map[r]]; row_map == nullptr: dst[r] = x[r].
struct BroadcastRowsArgs {
  Tensor x;
  const int32_t* row_map = nullptr;
  Tensor dst;
};

namespace ref {
void view(const ViewArgs& a);
void broadcast_rows(const BroadcastRowsArgs& a);
}  // namespace ref
namespace cpu {
void view(const ViewArgs& a);
void broadcast_rows(const BroadcastRowsArgs& a);
}  // namespace cpu

}  // namespace dpi::kernels
