// A scalar of the model as a linear form: bias + sum of <coefficients, value>. Read by the passes that end a
// model (fuse_tail.cpp) and that move linear terms into the lookup (scalars.cpp). All arithmetic in double.
#pragma once

#include "plan/analysis/ir.hpp"

namespace dpi::plan {

struct FormTerm {
  int32_t value = -1;
  std::vector<double> coef;  // one per element of the value
  std::vector<bool> read;  // elements that count; coef is 0 at the others, which slices left out. Empty: all
  bool weighed = false;    // dense weights or constants of the bundle are in coef, not only the graph's shape
};

struct LinearForm {
  double bias = 0;
  std::vector<FormTerm> terms;  // by producer, inputs last
  std::vector<std::string>
      heavy;  // ops that were not taken apart because of their shifts (analysis/shift.hpp)
  std::vector<std::string> large;  // the same because of their inputs' coefficients
  int64_t floats = 0;              // as many as the coefficients on the way take
};

/// How far the form is taken apart. kSums: sums of scalars and the last Linear(.,1) only, nothing is
/// multiplied together. kFull: through Concat, views, unmasked sums and means, affine maps and Linear layers.
enum class FormDepth { kSums, kFull };

/// Expands <coef, root> through every op whose output nothing else reads (views and Concat are expanded in
/// any case). The plan's ops must be in topological order. An op whose inputs have more coefficients than
/// `room` floats hold is a term.
LinearForm linear_form(const Plan& plan, const Index& index, int32_t root, std::vector<double> coef,
                       FormDepth depth, int64_t room);

/// coef over out_dims, summed over the axes that `in` repeats.
std::vector<double> unbroadcast(const std::vector<double>& coef, const Dims& out, const Dims& in);

/// True when all extents before `axis` are 1, so that what a Concat or slice there puts together or takes out
/// is contiguous.
bool leading_ones(const Dims& dims, int32_t axis);

}  // namespace dpi::plan
