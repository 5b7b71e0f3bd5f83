#include "encode/parse.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

namespace dpi {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view without_plus(std::string_view text) {
  return text.size() > 1 && text[0] == '+' && text[1] != '-' ? text.substr(1) : text;
}

size_t skip_digits(std::string_view text, size_t at) {
  while (at < text.size() && is_digit(text[at])) ++at;
  return at;
}

/// [-]digits[.digits][e[+-]digits] with at least one digit in the mantissa.
bool looks_decimal(std::string_view text) {
  size_t at = !text.empty() && text[0] == '-' ? 1 : 0;
  const size_t whole = skip_digits(text, at);
  size_t digits = whole - at;
  at = whole;
  if (at < text.size() && text[at] == '.') {
    const size_t end = skip_digits(text, at + 1);
    digits += end - at - 1;
    at = end;
  }
  if (digits == 0) return false;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    const size_t end = skip_digits(text, at);
    if (end == at) return false;
    at = end;
  }
  return at == text.size();
}

/// Does a decimal that is out of a double's range (so it lies far from 1) lie below it, and so round to 0?
/// By the place of its first digit that is not 0: long double does not reach far enough either.
bool is_tiny(std::string_view text) {
  const size_t e = std::min(text.find_first_of("eE"), text.size());
  const std::string_view mantissa = text.substr(0, e);
  const size_t first = mantissa.find_first_of("123456789");
  if (first == std::string_view::npos) return true;
  const size_t point = std::min(mantissa.find('.'), e);
  const auto place = static_cast<int64_t>(point) - static_cast<int64_t>(first);  // 1 for units
  int64_t exponent = 0;
  const std::string_view digits = without_plus(text.substr(std::min(e + 1, text.size())));
  const auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
  if (ec == std::errc::result_out_of_range) return digits[0] == '-';
  return exponent < -place;
}

}  // namespace

bool parse_integer(std::string_view text, int64_t* out) {
  text = without_plus(text);
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return ec == std::errc() && end == text.data() + text.size();
}

bool parse_decimal(std::string_view text, double* out) {
  text = without_plus(text);
  if (!looks_decimal(text)) return false;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), *out);
  if (ec == std::errc::result_out_of_range) {
    *out = 0;
    return is_tiny(text);
  }
  return ec == std::errc() && end == text.data() + text.size();
}

std::string_view number_text(double x, char* buffer) {
  std::to_chars_result r{};
  if (x == std::floor(x)) {
    r = std::to_chars(buffer, buffer + kNumberText, x == 0 ? 0.0 : x, std::chars_format::fixed, 0);
  } else {
    const auto format = std::fabs(x) < 1e-4 ? std::chars_format::scientific : std::chars_format::fixed;
    r = std::to_chars(buffer, buffer + kNumberText, x, format);
  }
  return {buffer, static_cast<size_t>(r.ptr - buffer)};
}

Status check_identity(double x) {
  if (!(std::fabs(x) >= 9007199254740992.0)) return {};
  char buffer[32];  // the shortest form, with an exponent where that is shorter
  const auto [end, ec] = std::to_chars(buffer, buffer + sizeof buffer, x);
  static_cast<void>(ec);
  return invalid_argument("the double " + std::string(buffer, end) +
                          " may stand for another integer (2^53 and beyond); give an integer or text");
}

}  // namespace dpi
