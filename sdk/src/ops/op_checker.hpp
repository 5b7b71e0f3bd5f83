// Helpers for the check of an op (check_<op> in <op>.cpp): each condition is one line, and a failing one
// names op, operand, what was found and what was expected.
#pragma once

#include <string>

#include "base/status.hpp"
#include "ops/dims.hpp"
#include "ops/owned_op.hpp"

namespace dpi::ops {

class OpChecker {
 public:
  explicit OpChecker(const OwnedOp& op) : op_(op) {}

  const OwnedOp& op() const { return op_; }
  const Dims& in(size_t i) const { return op_.input(i).dims; }
  const Dims& out(size_t i) const { return op_.output(i).dims; }

  Status fail(const std::string& what, const std::string& found, const std::string& expected) const;
  Status require(bool ok, const char* what, const std::string& found, const std::string& expected) const {
    return ok ? ok_status() : fail(what, found, expected);
  }
  Status dims(const char* what, const Dims& found, const Dims& expected) const;
  /// The value is present, holds floats, and has `rank` dims or more.
  Status value(const char* what, const dpi_value_desc& v, int min_rank) const;
  Status bags(const char* what, const dpi_value_desc& v) const;
  /// A param of exactly `n` elements; an absent one passes unless it is required.
  Status param(size_t i, const char* role, int64_t n, bool required) const;
  /// Input i is absent or has a number for each slice of x, which its last axis is cut into.
  Status positions(size_t i, const Dims& x) const;
  /// `axis` counts from 0 and is one of x's.
  Status axis(const Dims& x, int axis) const;
  /// Channel parameters p0.. of a unary function, from params[first] on, over n columns.
  Status unary_params(const kernels::UnaryAttrs& act, size_t first, int64_t n) const;

 private:
  const OwnedOp& op_;
};

inline std::string number(int64_t n) { return std::to_string(n); }

/// `found` lies in [low, high].
inline Status between(const OpChecker& c, const char* what, int64_t found, int64_t low, int64_t high) {
  return c.require(found >= low && found <= high, what, number(found), number(low) + " to " + number(high));
}

}  // namespace dpi::ops
