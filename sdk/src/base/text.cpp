#include "base/text.hpp"

#include <system_error>

#include "base/printable.hpp"

namespace dpi {

std::string in_quotes(std::string_view text) {
  constexpr size_t kMax = 80;
  if (text.size() <= kMax) return "'" + printable(text) + "'";
  size_t n = kMax;
  while (n > kMax - 4 && (static_cast<unsigned char>(text[n]) & 0xC0) == 0x80) --n;  // no half of a character
  return "'" + printable(text.substr(0, n)) + "...'";
}

std::string shape_text(std::span<const int64_t> shape) {
  if (shape.empty()) return "scalar";
  std::string out;
  for (int64_t d : shape) {
    if (!out.empty()) out += " x ";
    out += std::to_string(d);
  }
  return out;
}

std::string hex_text(uint64_t v) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out = "0x";
  for (int shift = 60; shift >= 0; shift -= 4) out += kDigits[(v >> shift) & 15];
  return out;
}

std::string errno_text(int error) {
  return std::generic_category().message(error) + " (" + std::to_string(error) + ")";
}

}  // namespace dpi
