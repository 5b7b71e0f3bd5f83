#include "encode/plain.hpp"

#include <cmath>

#include "base/text.hpp"
#include "encode/parse.hpp"

namespace dpi {

namespace {

Status set_float(double number, std::string_view shown, EncodedValue* out) {
  out->kind = EncodedValue::Kind::kFloat;
  out->value = static_cast<float>(number);
  if (std::isfinite(out->value)) return {};
  return invalid_argument(in_quotes(shown) + " is not finite in float32");
}

}  // namespace

Status plain_text(std::string_view text, bool gives_id, EncodedValue* out) {
  *out = {};
  if (text.empty()) return {};
  if (gives_id) {
    out->kind = EncodedValue::Kind::kId;
    if (parse_integer(text, &out->id)) return {};
    return invalid_argument(in_quotes(text) + " is no id (an integer)");
  }
  double number = 0;
  if (!parse_decimal(text, &number)) return invalid_argument(in_quotes(text) + " is no number");
  return set_float(number, text, out);
}

Status plain_number(double number, bool gives_id, EncodedValue* out) {
  *out = {};
  if (std::isnan(number)) return {};
  if (std::isinf(number)) return invalid_argument("an infinite value");
  char buffer[kNumberText];
  if (!gives_id) return set_float(number, number_text(number, buffer), out);
  DPI_RETURN_IF_ERROR(check_identity(number));
  if (number != std::floor(number))
    return invalid_argument(in_quotes(number_text(number, buffer)) + " is no id (an integer)");
  out->kind = EncodedValue::Kind::kId;
  out->id = static_cast<int64_t>(number);
  return {};
}

}  // namespace dpi
