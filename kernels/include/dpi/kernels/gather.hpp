// Gather: entries of an axis by computed positions (FORMAT.md part 7, Gather).
#pragma once

#include <dpi/kernels/index.hpp>
#include <dpi/kernels/tensor.hpp>

namespace dpi::kernels {

struct GatherAttrs {
  int32_t axis = -1;  // resolved by the graph to 0 .. rank-1
};

/// The entry that position `p` stands for, whatever float it is: the fraction is cut off, and what lies
/// outside 0
/// .. n-1 is moved to its nearest end. No position reads outside x. A NaN gives -1.
constexpr int64_t entry_of(float p, int64_t n) {
  if (p != p) return -1;
  if (!(p >= 1)) return 0;
  return p < static_cast<float>(n) ? static_cast<int64_t>(p) : n - 1;
}

/// Where element `flat` of a row with dims `dst` is read in a row with dims `src`, which has the same rank:
/// entry `entry` of the axis, elsewhere as broadcast_offset.
constexpr int64_t gathered_offset(const Dims& dst, int64_t flat, const Dims& src, int32_t axis,
                                  int64_t entry) {
  int64_t offset = 0;
  int64_t stride = 1;
  for (int i = dst.rank - 1; i >= 0; --i) {
    const int64_t at = i == axis ? entry : src.d[i] != 1 ? flat % dst.d[i] : 0;
    flat /= dst.d[i];
    offset += at * stride;
    stride *= src.d[i];
  }
  return offset;
}

/// x and index have one rank, and extents that broadcast except on the axis: index's is dst's there. A NaN
/// among the positions gives NaN. dst aliases nothing.
struct GatherArgs {
  GatherAttrs attrs;
  Tensor x;
  Tensor index;
  Tensor dst;
};

namespace ref {
void gather(const GatherArgs& a);
}
namespace cuda {
int gather(const GatherArgs& a, void* stream);
}

}  // namespace dpi::kernels
