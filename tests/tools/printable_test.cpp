// What is shown of text from outside: letters of every script stay, what a terminal or a log would act on
// does not.
#include "base/printable.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "base/text.hpp"

namespace dpi::test::printable_test {

using dpi::copy_printable;
using dpi::in_quotes;
using dpi::printable;

namespace {

/// As a terminal reads it: no C0, no DEL, and after decoding no C1. Written without the code under test.
bool is_quiet(const std::string& text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c < 0x20 || c == 0x7F) return false;
    if (c == 0xC2 && static_cast<unsigned char>(text[i + 1]) < 0xA0) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("letters stay, controls and stray bytes are spelled out") {
  CHECK(printable("") == "");
  CHECK(printable("age [0], 日本 größe 😀") == "age [0], 日本 größe 😀");
  CHECK(printable("\x1b]0;owned\x07") == "\\x1b]0;owned\\x07");
  CHECK(printable(std::string_view("a\0b\n\r\t\x7f", 7)) == "a\\x00b\\n\\r\\t\\x7f");
  CHECK(printable("\xC2\x9B[31m") == "\\u009b[31m");                       // CSI as one character
  CHECK(printable("\x9B[31m") == "\\x9b[31m");                             // and as one byte
  CHECK(printable("\xE2\x80\xAEtxt\xE2\x81\xA6") == "\\u202etxt\\u2066");  // writing turned round
  CHECK(printable("\xFF\xC0\x80\xED\xA0\x80z\xE2\x82") == "\\xff\\xc0\\x80\\xed\\xa0\\x80z\\xe2\\x82");
  CHECK(printable("\xC2\xA0") == "\xC2\xA0");
}

TEST_CASE("random bytes: quiet, unchanged by a second time, and the buffer holds the same text cut") {
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    std::string text(random() % 40, '\0');
    for (char& c : text) {
      const uint32_t kind = random() % 4;
      c = static_cast<char>(kind == 0   ? random() % 0x20
                            : kind == 1 ? 0xC0 + random() % 0x40
                                        : random() % 256);
    }
    const std::string shown = printable(text);
    REQUIRE(is_quiet(shown + "\xC3\xA4"));
    REQUIRE(printable(shown) == shown);
    const size_t room = 1 + random() % 64;
    std::vector<char> buffer(room + 1, '#');
    copy_printable(text, buffer.data(), room);
    const std::string cut = buffer.data();
    REQUIRE(buffer[room] == '#');
    REQUIRE(cut.size() < room);
    REQUIRE(shown.starts_with(cut));
    REQUIRE(cut.size() + 6 >= std::min(shown.size(), room - 1));  // no more is lost than a character
  }
}

TEST_CASE("a quoted text is cut between characters") {
  CHECK(in_quotes("größe\x1b") == "'größe\\x1b'");
  CHECK(in_quotes(std::string(80, 'x')) == "'" + std::string(80, 'x') + "'");
  CHECK(in_quotes(std::string(81, 'x')) == "'" + std::string(80, 'x') + "...'");
  CHECK(in_quotes(std::string(79, 'x') + "äöü") == "'" + std::string(79, 'x') + "...'");
}

}  // namespace dpi::test::printable_test
