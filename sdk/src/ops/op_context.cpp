#include "ops/op_context.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace dpi::ops {

Status OpContext::bad(const std::string& text) const {
  return bad_model("op '" + op_->name + "' (" + op_->op + "): " + text);
}

Status OpContext::not_known(const std::string& text) const {
  return unsupported("op '" + op_->name + "' (" + op_->op + "): " + text);
}

Result<Dims> OpContext::floats(size_t i) const {
  const OpInput& v = (*inputs_)[i];
  if (v.is_bags) return bad("input '" + v.name + "' holds ids, expected floats");
  return v.dims;
}

Result<const FeatureSpec*> OpContext::bags(size_t i) const {
  const OpInput& v = (*inputs_)[i];
  if (!v.is_bags)
    return bad("input '" + v.name + "' holds floats " + text_of(v.dims) + ", expected ids of a feature");
  return v.feature;
}

const AttrValue* OpContext::find(const char* key) const {
  const auto it = op_->attrs.find(key);
  return it != op_->attrs.end() ? &it->second : nullptr;
}

Status OpContext::missing_attr(const char* key) const {
  return bad("attribute '" + std::string(key) + "' is missing");
}

Status OpContext::wrong_attr(const char* key, const AttrValue& found, const char* expected) const {
  return bad("attribute '" + std::string(key) + "' is " + json_text(found) + ", expected " + expected);
}

Result<int64_t> OpContext::integer(const char* key, std::optional<int64_t> otherwise) const {
  const AttrValue* found = find(key);
  if (found == nullptr && otherwise) return *otherwise;
  if (found == nullptr) return missing_attr(key);
  const auto* v = std::get_if<int64_t>(found);
  if (v == nullptr) return wrong_attr(key, *found, "an integer");
  return *v;
}

Result<float> OpContext::number(const char* key, std::optional<float> otherwise) const {
  const AttrValue* found = find(key);
  if (found == nullptr && otherwise) return *otherwise;
  if (found == nullptr) return missing_attr(key);
  double v = std::numeric_limits<double>::infinity();
  if (const auto* real = std::get_if<double>(found)) v = *real;
  if (const auto* integer = std::get_if<int64_t>(found)) v = static_cast<double>(*integer);
  if (const auto* large = std::get_if<uint64_t>(found)) v = static_cast<double>(*large);
  if (!(std::abs(v) <= std::numeric_limits<float>::max())) return wrong_attr(key, *found, "a finite number");
  return static_cast<float>(v);
}

Result<bool> OpContext::flag(const char* key, bool otherwise) const {
  const AttrValue* found = find(key);
  if (found == nullptr) return otherwise;
  const auto* v = std::get_if<bool>(found);
  if (v == nullptr) return wrong_attr(key, *found, "true or false");
  return *v;
}

Result<std::string> OpContext::text(const char* key, std::optional<std::string> otherwise) const {
  const AttrValue* found = find(key);
  if (found == nullptr && otherwise) return *otherwise;
  if (found == nullptr) return missing_attr(key);
  const auto* v = std::get_if<std::string>(found);
  if (v == nullptr) return wrong_attr(key, *found, "a text");
  return *v;
}

Result<std::vector<int64_t>> OpContext::integers(const char* key) const {
  const AttrValue* found = find(key);
  if (found == nullptr) return missing_attr(key);
  const auto* v = std::get_if<std::vector<int64_t>>(found);
  if (v == nullptr) return bad("attribute '" + std::string(key) + "' is not a list of integers");
  return *v;
}

Result<int32_t> OpContext::axis(const Dims& x, std::optional<int64_t> otherwise) const {
  DPI_ASSIGN_OR_RETURN(const int64_t a, integer("axis", otherwise));
  if (a < -x.rank || a >= x.rank) {
    return bad("axis " + std::to_string(a) + " is outside a value of dims " + text_of(x));
  }
  return static_cast<int32_t>(a < 0 ? a + x.rank : a);
}

Status OpContext::only_attrs(std::span<const std::string_view> keys, const std::string& where) const {
  for (const auto& [key, value] : op_->attrs) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      return not_known("attribute '" + key + "' is not known" + (where.empty() ? "" : " for " + where));
    }
  }
  return ok_status();
}

Result<Dims> OpContext::param_shape(const char* role) const {
  const auto it = op_->params.find(role);
  if (it == op_->params.end()) return bad("parameter '" + std::string(role) + "' is missing");
  auto shape = model_->param_shape(it->second);
  const std::string place = "parameter " + std::string(role) + " ('" + it->second + "')";
  if (!shape.ok()) return bad(place + ": " + shape.status().message());
  const auto dims = dims_from(*shape);
  if (!dims) return bad(place + " is " + text_of(*shape) + ", expected 1 to 5 dims of at least 1");
  int64_t n = 1;
  for (int i = 0; i < dims->rank; ++i) {
    if (__builtin_mul_overflow(n, dims->d[i], &n))
      return bad(place + " is " + text_of(*dims) + ", too large");
  }
  return *dims;
}

Status OpContext::use_param(const char* role) {
  if (!has_param(role)) {
    node_->params.push_back(-1);
    return ok_status();
  }
  DPI_ASSIGN_OR_RETURN(const Dims dims, param_shape(role));
  node_->params.push_back(model_->add_param(op_->params.at(role), dims));
  return ok_status();
}

Status OpContext::use_param(const char* role, const Dims& expected) {
  if (has_param(role)) {
    DPI_ASSIGN_OR_RETURN(const Dims dims, param_shape(role));
    if (!(dims == expected)) {
      return bad(std::string(role) + " is " + text_of(dims) + ", expected " + text_of(expected));
    }
  }
  return use_param(role);
}

Status OpContext::exactly_params(std::initializer_list<std::string_view> roles,
                                 const std::string& where) const {
  for (const std::string_view role : roles) {
    if (!op_->params.contains(std::string(role))) {
      return bad("parameter '" + std::string(role) + "' is missing for " + where);
    }
  }
  for (const auto& [role, name] : op_->params) {
    if (std::find(roles.begin(), roles.end(), role) == roles.end()) {
      return not_known("parameter '" + role + "' is not known for " + where);
    }
  }
  return ok_status();
}

}  // namespace dpi::ops
