#include "encode/split.hpp"

#include <cstddef>

namespace dpi {

namespace {

/// Bytes of the white space that the text begins with, 0 when it begins with something else. White space is
/// what Python's str.split() takes for it, in UTF-8: of ASCII also 1C to 1F, beyond it U+0085, A0, 1680, 2000
/// to 200A, 2028, 2029, 202F, 205F, 3000.
size_t space_at(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned a = byte(0), b = byte(1), c = byte(2);
  if (a == 0x20 || (a >= 0x09 && a <= 0x0D) || (a >= 0x1C && a <= 0x1F)) return 1;
  if (a == 0xC2) return b == 0x85 || b == 0xA0 ? 2 : 0;
  if (a == 0xE1) return b == 0x9A && c == 0x80 ? 3 : 0;
  if (a == 0xE3) return b == 0x80 && c == 0x80 ? 3 : 0;
  if (a != 0xE2) return 0;
  if (b == 0x81) return c == 0x9F ? 3 : 0;
  return b == 0x80 && ((c >= 0x80 && c <= 0x8A) || c == 0xA8 || c == 0xA9 || c == 0xAF) ? 3 : 0;
}

}  // namespace

bool BagElements::next(std::string_view* element) {
  if (how_ == How::kWhiteSpace) return next_word(element);
  if (done_) return false;
  const size_t end = how_ == How::kWhole ? std::string_view::npos : rest_.find(splitter_);
  *element = rest_.substr(0, end);
  done_ = end == std::string_view::npos;
  if (!done_) rest_.remove_prefix(end + splitter_.size());
  return true;
}

bool BagElements::next_word(std::string_view* element) {
  for (size_t n = space_at(rest_); n != 0; n = space_at(rest_)) rest_.remove_prefix(n);
  size_t end = 0;
  while (end < rest_.size() && space_at(rest_.substr(end)) == 0) ++end;
  *element = rest_.substr(0, end);
  rest_.remove_prefix(end);
  return end != 0;
}

}  // namespace dpi
