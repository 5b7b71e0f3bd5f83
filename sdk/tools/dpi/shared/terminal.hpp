// The program's output: lines for people, JSON, progress on a terminal, sizes, numbers. Nothing else in the
// program prints (tests/rules), except scores (score_file.hpp).
#pragma once

#include <cstdint>
#include <cstdio>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace dpi::tool {

/// One line, made as printf makes it, without a line end in `format`. Names, cells and messages in it are
/// shown as base/printable.hpp shows them, so none can act on the terminal or forge a second line.
[[gnu::format(printf, 2, 3)]] void print_line(std::FILE* out, const char* format, ...);
/// Each line of `text` by print_line.
void print_lines(std::FILE* out, std::string_view text);
/// Indented JSON and a line end. Bytes that are not UTF-8 become U+FFFD; what a terminal would act on is
/// escaped.
void print_json(std::FILE* out, const nlohmann::ordered_json& json);
/// Throws CommandError when something printed to standard output did not arrive (a full disk, a closed pipe).
void check_stdout();

/// True if standard output is a terminal: there, lines of output and a progress line would mix.
bool shows_stdout();

/// One line on stderr that is drawn anew, at most ten times a second, and only when stderr is a terminal.
/// Nothing is drawn in the first tenth of a second.
class Progress {
 public:
  /// wanted false: nothing is drawn.
  explicit Progress(std::string label, bool wanted = true);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void update(uint64_t done, uint64_t total);  // total 0 = unknown
  void set_label(const std::string& label) { label_ = label; }

 private:
  std::string label_;
  bool terminal_;
  uint64_t last_ns_;  // when it was drawn last; at first, when it was made
  bool drawn_ = false;
};

std::string bytes_text(double bytes);             // "1.5 MiB"
std::string number_text(double v, int decimals);  // fixed
std::string count_text(double v);                 // "1 234 567"
std::string seconds_text(double seconds);         // "12.3 us"
/// `text` padded with blanks to `width` (negative: on the left).
std::string padded(const std::string& text, int width);

}  // namespace dpi::tool
