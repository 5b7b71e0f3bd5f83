// What the checks of check_op.cpp and check_fused.cpp are written with: each condition is one line, and a
// failing one names op, operand, what was found and what was expected.
#pragma once

#include <initializer_list>
#include <string>

#include "backend/bind.hpp"

namespace dpi::backend {

kernels::Dims dims_of(std::initializer_list<int64_t> extents);
std::string text_of(const kernels::Dims& d);  // "[3, 8]"

/// `d` with the extent of `axis` replaced, or without the axis.
kernels::Dims with_extent(kernels::Dims d, int axis, int64_t extent);
kernels::Dims without_axis(const kernels::Dims& d, int axis);

class OpChecker {
 public:
  explicit OpChecker(const OwnedOp& op) : op_(op) {}

  const OwnedOp& op() const { return op_; }
  const kernels::Dims& in(size_t i) const { return op_.input(i).dims; }
  const kernels::Dims& out(size_t i) const { return op_.output(i).dims; }

  Status fail(const std::string& what, const std::string& found, const std::string& expected) const;
  Status require(bool ok, const char* what, const std::string& found, const std::string& expected) const {
    return ok ? ok_status() : fail(what, found, expected);
  }
  Status dims(const char* what, const kernels::Dims& found, const kernels::Dims& expected) const;
  /// The value is present, holds floats, and has `rank` dims or more.
  Status value(const char* what, const dpi_value_desc& v, int min_rank) const;
  Status bags(const char* what, const dpi_value_desc& v) const;
  /// A param of exactly `n` elements; an absent one passes unless it is required.
  Status param(size_t i, const char* role, int64_t n, bool required) const;

 private:
  const OwnedOp& op_;
};

/// The fused forms (check_fused.cpp).
Status check_multi_lookup(const OpChecker& c);
Status check_dense(const OpChecker& c);
Status check_elementwise(const OpChecker& c);
Status check_cross_v1(const OpChecker& c);
Status check_cross_v1_closed(const OpChecker& c);
Status check_fm(const OpChecker& c);
Status check_tail(const OpChecker& c);
/// Channel parameters p0.. of a unary function, from params[first] on, over n columns.
Status check_unary_params(const OpChecker& c, const kernels::UnaryAttrs& act, size_t first, int64_t n);
/// Do the dims of `from` broadcast to exactly `to`?
bool broadcasts_to(const kernels::Dims& from, const kernels::Dims& to);

}  // namespace dpi::backend
