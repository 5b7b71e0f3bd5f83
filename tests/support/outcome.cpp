#include "support/outcome.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace dpi::fuzz {

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: not as promised: %s\n", what);
  std::abort();
}

namespace {

/// Bytes of the UTF-8 sequence at `at`, 0 when it is none: overlong forms, surrogates and what lies beyond
/// U+10FFFF are none. Written apart from the library's own check.
size_t sequence_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const unsigned lead = byte(at);
  if (lead < 0x80) return 1;
  const size_t n = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  uint32_t code = lead & (0x7fu >> n);
  for (size_t i = 1; i < n; ++i) {
    if ((byte(at + i) & 0xc0u) != 0x80u) return 0;
    code = code << 6 | (byte(at + i) & 0x3fu);
  }
  const uint32_t least = n == 2 ? 0x80 : n == 3 ? 0x800 : 0x10000;
  if (code < least || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return 0;
  return code < 0xa0 ? 0 : n;  // C1 control characters
}

}  // namespace

bool is_printable_line(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const auto c = static_cast<unsigned char>(text[at]);
    const size_t n = sequence_at(text, at);
    if (n == 0 || c < 0x20 || c == 0x7f) return false;
    at += n;
  }
  return !text.empty();
}

void expect_documented(dpi_status status) {
  expect(status >= DPI_OK && status <= DPI_E_INTERNAL, "the status is in the header's list");
  expect(status != DPI_E_QUEUE_FULL, "no function returns DPI_E_QUEUE_FULL");
  expect(std::strcmp(dpi_status_name(status), "") != 0, "the status has a name");
}

void expect_documented(dpi_status status, const dpi_error& error) {
  const size_t length = strnlen(error.message, sizeof error.message);
  expect(length < sizeof error.message, "the text ends with NUL");
  if (status == DPI_E_INTERNAL) std::fprintf(stderr, "fuzz: DPI_E_INTERNAL: %s\n", error.message);
  expect(status != DPI_E_INTERNAL, "no defect of the library is reported");
  expect_documented(status);
  if (status == DPI_OK) return;
  expect(error.code == status, "the error has the status as its code");
  expect(is_printable_line({error.message, length}), "the text is a printable line");
}

namespace {
Tally g_tally;
bool g_loaded = false, g_predicted = false;
}  // namespace

const Tally& tally() { return g_tally; }

void begin_input() {
  ++g_tally.inputs;
  g_loaded = g_predicted = false;
}

void mark_loaded() {
  g_tally.loaded += g_loaded ? 0 : 1;
  g_loaded = true;
}

void mark_predicted() {
  g_tally.predicted += g_predicted ? 0 : 1;
  g_predicted = true;
}

}  // namespace dpi::fuzz
