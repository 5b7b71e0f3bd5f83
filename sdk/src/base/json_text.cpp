#include "base/json_text.hpp"

#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/printable.hpp"

namespace dpi {
namespace {

void append_control(std::string* out, uint32_t c) {
  switch (c) {
    case '\b':
      *out += "\\b";
      return;
    case '\t':
      *out += "\\t";
      return;
    case '\n':
      *out += "\\n";
      return;
    case '\f':
      *out += "\\f";
      return;
    case '\r':
      *out += "\\r";
      return;
    default: {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
      *out += code;
    }
  }
}

}  // namespace

void append_json_string(std::string* out, std::string_view text) {
  *out += '"';
  while (!text.empty()) {
    const size_t n = utf8_length(text);
    const std::string_view sequence = text.substr(0, n);
    if (n == 0) {
      *out += "\xEF\xBF\xBD";
    } else if (const uint32_t c = code_point(sequence); is_control(c)) {
      append_control(out, c);
    } else {
      if (c == '"' || c == '\\') *out += '\\';
      *out += sequence;
    }
    text.remove_prefix(n == 0 ? 1 : n);
  }
  *out += '"';
}

void append_json_number(std::string* out, double v) {
  if (!std::isfinite(v)) {
    *out += "null";
    return;
  }
  if (std::signbit(v)) *out += '-';
  char buffer[32];  // d[.ddd]e[+-]xx
  const char* end =
      std::to_chars(buffer, buffer + sizeof buffer, std::fabs(v), std::chars_format::scientific).ptr;
  const std::string_view text(buffer, static_cast<size_t>(end - buffer));
  const size_t e = text.find('e');
  std::string digits(1, text[0]);
  if (e > 2) digits += text.substr(2, e - 2);
  int exponent = 0;
  std::from_chars(text.data() + e + (text[e + 1] == '+' ? 2 : 1), end, exponent);

  constexpr int kLeast = -4, kMost = 15;  // where the point stays among or beside the digits
  const int count = static_cast<int>(digits.size());
  const int point = exponent + 1;  // digits before the point
  if (v == 0) {
    *out += "0.0";
  } else if (count <= point && point <= kMost) {
    *out += digits.append(static_cast<size_t>(point - count), '0') + ".0";
  } else if (0 < point && point <= kMost) {
    *out += digits.insert(static_cast<size_t>(point), ".");
  } else if (kLeast < point && point <= 0) {
    *out += "0." + std::string(static_cast<size_t>(-point), '0') + digits;
  } else {
    if (count > 1) digits.insert(1, ".");
    *out += digits.append(text.substr(e));
  }
}

void JsonWriter::key(std::string_view name) {
  separate();
  append_json_string(&out_, name);
  out_ += ':';
}

void JsonWriter::separate() {
  if (out_.empty()) return;
  const char last = out_.back();
  if (last != '{' && last != '[' && last != ':') out_ += ',';
}

std::string json_text(const JsonScalar& value) {
  if (std::holds_alternative<std::nullptr_t>(value)) return "null";
  JsonWriter w;
  std::visit(
      [&w](const auto& v) {
        if constexpr (!std::is_same_v<std::decay_t<decltype(v)>, std::nullptr_t>) w.value(v);
      },
      value);
  return w.take();
}

}  // namespace dpi
