// FM, second order (Factorization Machines, Rendle 2010, Lemma 3.1): y = 0.5 (|sum_f e_f|^2 - sum_f |e_f|^2).
#pragma once

#include <dpi/kernels/tensor.hpp>

namespace dpi::kernels {

struct FmAttrs {
  int64_t fields = 0;
  int64_t dim = 0;
};

/// x: [rows, fields * dim] or [rows, fields, dim]; dst: [rows, 1].
struct FmArgs {
  FmAttrs attrs;
  Tensor x;
  Tensor dst;
};

namespace ref {
void fm(const FmArgs& a);
}
namespace cpu {
void fm(const FmArgs& a);
}

}  // namespace dpi::kernels
