// Text for people: progress on a terminal, sizes, numbers.
#pragma once

#include <cstdint>
#include <string>

namespace dpi::tool {

/// One line on stderr that is drawn anew, at most ten times a second, and only when stderr is a terminal.
class Progress {
 public:
  explicit Progress(std::string label);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void update(uint64_t done, uint64_t total);  // total 0 = unknown

 private:
  std::string label_;
  bool terminal_;
  uint64_t last_ns_ = 0;
  bool drawn_ = false;
};

std::string bytes_text(double bytes);             // "1.5 MiB"
std::string number_text(double v, int decimals);  // fixed
std::string count_text(double v);                 // "1 234 567"
std::string seconds_text(double seconds);         // "12.3 us"
/// `text` padded with blanks to `width` (negative: on the left).
std::string padded(const std::string& text, int width);

}  // namespace dpi::tool
