#include "ops/op_checker.hpp"

#include "ops/table.hpp"

namespace dpi::ops {

Status OpChecker::fail(const std::string& what, const std::string& found, const std::string& expected) const {
  return invalid_argument("op '" + op_.name + "' (" + op_name(op_.kind) + "): " + what + " is " + found +
                          ", expected " + expected);
}

Status OpChecker::dims(const char* what, const Dims& found, const Dims& expected) const {
  return require(found == expected, what, text_of(found), text_of(expected));
}

Status OpChecker::value(const char* what, const dpi_value_desc& v, int min_rank) const {
  if (v.is_bags != 0) return fail(what, "ids", "floats");
  if (v.dims.rank < min_rank || v.dims.rank > kernels::kMaxRank) {
    return fail(what, text_of(v.dims),
                std::to_string(min_rank) + " to " + std::to_string(kernels::kMaxRank) + " dims");
  }
  const bool fits = v.row_stride >= v.dims.size() || (v.is_constant != 0 && v.row_stride == 0);
  return require(fits, what, "a row stride of " + std::to_string(v.row_stride),
                 "at least " + std::to_string(v.dims.size()));
}

Status OpChecker::bags(const char* what, const dpi_value_desc& v) const {
  return require(v.is_bags != 0, what, "floats " + text_of(v.dims), "ids");
}

Status OpChecker::param(size_t i, const char* role, int64_t n, bool required) const {
  const kernels::Param p = op_.param(i);
  if (p.data == nullptr) return require(!required, role, "absent", std::to_string(n) + " elements");
  return require(p.dims.size() == n, role, text_of(p.dims), std::to_string(n) + " elements");
}

Status OpChecker::positions(size_t i, const Dims& x) const {
  if (is_absent(op_.input(i))) return ok_status();
  DPI_RETURN_IF_ERROR(value("positions", op_.input(i), 1));
  const int64_t slices = x.at(-1) > 0 ? x.size() / x.at(-1) : 0;
  return require(in(i).size() == slices, "positions", text_of(in(i)), "one per slice of " + text_of(x));
}

Status OpChecker::axis(const Dims& x, int axis) const {
  return require(axis >= 0 && axis < x.rank, "the axis", std::to_string(axis),
                 "0 to " + std::to_string(x.rank - 1));
}

Status OpChecker::unary_params(const kernels::UnaryAttrs& act, size_t first, int64_t n) const {
  using kernels::UnaryKind;
  switch (act.kind) {
    case UnaryKind::kAffine: {
      const bool any = op_.param(first).data != nullptr || op_.param(first + 1).data != nullptr;
      DPI_RETURN_IF_ERROR(param(first, "scale", n, any));
      return param(first + 1, "shift", n, any);
    }
    case UnaryKind::kPrelu:
      return param(first, "slope", op_.param(first).dims.size() == 1 ? 1 : n, true);
    case UnaryKind::kDice:
      DPI_RETURN_IF_ERROR(param(first, "alpha", n, true));
      DPI_RETURN_IF_ERROR(param(first + 1, "scale", n, true));
      return param(first + 2, "shift", n, true);
    default: {
      const auto kind = static_cast<int32_t>(act.kind);
      const bool known = kind >= 0 && kind <= static_cast<int32_t>(UnaryKind::kSign);
      return require(known, "the function", std::to_string(kind), "a kind of unary.hpp");
    }
  }
}

}  // namespace dpi::ops
