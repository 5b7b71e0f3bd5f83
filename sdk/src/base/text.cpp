#include "base/text.hpp"

#include <algorithm>
#include <numeric>
#include <system_error>
#include <vector>

#include "base/printable.hpp"

namespace dpi {

std::string in_quotes(std::string_view text) {
  constexpr size_t kMax = 80;
  if (text.size() <= kMax) return "'" + printable(text) + "'";
  size_t n = kMax;
  while (n > kMax - 4 && (static_cast<unsigned char>(text[n]) & 0xC0) == 0x80) --n;  // no half of a character
  return "'" + printable(text.substr(0, n)) + "...'";
}

namespace {

// Damerau and Levenshtein's distance, for words of at most 80 letters.
size_t edits(std::string_view a, std::string_view b) {
  std::vector<size_t> two, one(b.size() + 1), now(b.size() + 1);
  std::iota(one.begin(), one.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({one[j] + 1, now[j - 1] + 1, one[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        now[j] = std::min(now[j], two[j - 2] + 1);
    }
    two = one;
    one = now;
  }
  return one[b.size()];
}

}  // namespace

std::string did_you_mean(std::string_view word, std::span<const std::string_view> known) {
  if (word.size() > 80) return "";
  size_t best = word.size() / 3 + 1;
  std::string_view found;
  for (const std::string_view k : known) {
    if (const size_t n = edits(word, k); n < best) {
      best = n;
      found = k;
    }
  }
  return found.empty() ? "" : " (did you mean " + in_quotes(found) + "?)";
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

std::string hex_bytes(std::span<const std::byte> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const std::byte b : bytes) {
    out += kDigits[static_cast<unsigned>(b) >> 4];
    out += kDigits[static_cast<unsigned>(b) & 15];
  }
  return out;
}

namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

}  // namespace

bool parse_hex(std::string_view text, std::span<std::byte> out) {
  if (text.size() != 2 * out.size()) return false;
  for (size_t i = 0; i < out.size(); ++i) {
    const int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    out[i] = static_cast<std::byte>(high * 16 + low);
  }
  return true;
}

std::string errno_text(int error) {
  return std::generic_category().message(error) + " (" + std::to_string(error) + ")";
}

}  // namespace dpi
