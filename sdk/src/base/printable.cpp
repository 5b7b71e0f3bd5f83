#include "base/printable.hpp"

#include <algorithm>
#include <array>

namespace dpi {
namespace {

struct Shown {
  size_t taken = 0;  // bytes of the text
  size_t size = 0;   // bytes of what is shown for them
  std::array<char, 8> bytes{};

  std::string_view view() const { return {bytes.data(), size}; }
  void add(std::string_view text) {
    std::copy(text.begin(), text.end(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    size += text.size();
  }
  void add_hex(uint32_t v, int digits) {
    for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4)
      bytes[size++] = "0123456789abcdef"[v >> shift & 15];
  }
};

/// The printable form of the first character of `text`.
Shown show_front(std::string_view text) {
  const size_t n = utf8_length(text);
  Shown s;
  s.taken = std::max<size_t>(n, 1);
  const uint32_t c = n == 0 ? static_cast<unsigned char>(text[0]) : code_point(text.substr(0, n));
  if (n != 0 && !is_control(c)) {
    s.add(text.substr(0, n));
  } else if (c == '\n' || c == '\t' || c == '\r') {
    s.add(c == '\n' ? "\\n" : c == '\t' ? "\\t" : "\\r");
  } else {
    s.add(n > 1 ? "\\u" : "\\x");
    s.add_hex(c, n > 1 ? 4 : 2);
  }
  return s;
}

}  // namespace

size_t utf8_length(std::string_view s) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(s[i]); };
  const unsigned char lead = byte(0);
  const size_t n = lead < 0x80   ? 1
                   : lead < 0xC2 ? 0
                   : lead < 0xE0 ? 2
                   : lead < 0xF0 ? 3
                   : lead < 0xF5 ? 4
                                 : 0;
  if (n > s.size()) return 0;
  for (size_t i = 1; i < n; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if (lead == 0xE0 && byte(1) < 0xA0) return 0;
  if (lead == 0xED && byte(1) > 0x9F) return 0;
  if (lead == 0xF0 && byte(1) < 0x90) return 0;
  if (lead == 0xF4 && byte(1) > 0x8F) return 0;
  return n;
}

uint32_t code_point(std::string_view sequence) {
  const auto lead = static_cast<unsigned char>(sequence[0]);
  if (sequence.size() == 1) return lead;
  uint32_t c = lead & (0x7Fu >> sequence.size());
  for (const char next : sequence.substr(1)) c = c << 6 | (static_cast<unsigned char>(next) & 0x3Fu);
  return c;
}

bool is_control(uint32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Shown shown = show_front(text);
    out += shown.view();
    text.remove_prefix(shown.taken);
  }
  return out;
}

void copy_printable(std::string_view text, char* out, size_t room) {
  while (!text.empty()) {
    const Shown shown = show_front(text);
    if (shown.size >= room) break;
    out = std::copy(shown.view().begin(), shown.view().end(), out);
    room -= shown.size;
    text.remove_prefix(shown.taken);
  }
  *out = '\0';
}

}  // namespace dpi
