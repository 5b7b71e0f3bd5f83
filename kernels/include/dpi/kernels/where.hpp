// Where: one of two values, element by element, dims aligned at the right, extent 1 broadcasts (FORMAT.md
// part 7, Where).
#pragma once

#include <dpi/kernels/tensor.hpp>

namespace dpi::kernels {

/// `yes` where `cond` is not 0, else `no`. What is not chosen leaves no trace, be it infinite or NaN. A NaN
/// is not 0. constexpr, so that nvcc takes it for device code too.
template <class T>
constexpr T apply_where(T cond, T yes, T no) {
  return cond == 0 ? no : yes;
}

/// dst may alias an input that has exactly the same dims and stride.
struct WhereArgs {
  Tensor cond;
  Tensor yes;
  Tensor no;
  Tensor dst;
};

namespace ref {
void where(const WhereArgs& a);
}
namespace cpu {
void where(const WhereArgs& a);
}

}  // namespace dpi::kernels
