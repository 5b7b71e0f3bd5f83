#include "sdk/tools/dpi/shared/terminal.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdarg>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.hpp"
#include "base/printable.hpp"
#include "sdk/tools/dpi/shared/command_error.hpp"

namespace dpi::tool {

namespace {
constexpr uint64_t kRedrawNs = 100'000'000;
constexpr int kBarWidth = 32;
}  // namespace

void print_line(std::FILE* out, const char* format, ...) {
  std::va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  std::string text(static_cast<size_t>(std::max(0, std::vsnprintf(nullptr, 0, format, args))) + 1, '\0');
  std::vsnprintf(text.data(), text.size(), format, again);
  va_end(again);
  va_end(args);
  text.pop_back();
  text = printable(text) + '\n';
  std::fwrite(text.data(), 1, text.size(), out);
}

void print_lines(std::FILE* out, std::string_view text) {
  while (!text.empty()) {
    const size_t n = std::min(text.find('\n'), text.size());
    print_line(out, "%s", std::string(text.substr(0, n)).c_str());
    text.remove_prefix(std::min(n + 1, text.size()));
  }
}

void print_json(std::FILE* out, const nlohmann::ordered_json& json) {
  const std::string text = json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  std::string line;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t n = std::max<size_t>(utf8_length(rest), 1);
    const uint32_t c = code_point(rest.substr(0, n));
    if (c >= 0x7F &&
        is_control(c)) {  // those below are escaped already; what is left are the indent's line ends
      char escaped[16];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
      line += escaped;
    } else {
      line += rest.substr(0, n);
    }
    rest.remove_prefix(n);
  }
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), out);
}

void check_stdout() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  throw CommandError(kExitOther, std::string("standard output: ") + std::strerror(errno));
}

bool shows_stdout() { return isatty(STDOUT_FILENO) == 1; }

Progress::Progress(std::string label, bool wanted)
    : label_(std::move(label)), terminal_(wanted && isatty(STDERR_FILENO) == 1), last_ns_(monotonic_ns()) {}

Progress::~Progress() {
  if (drawn_) std::fprintf(stderr, "\r\033[K");
}

void Progress::update(uint64_t done, uint64_t total) {
  const uint64_t now = monotonic_ns();
  if (!terminal_ || now - last_ns_ < kRedrawNs) return;
  last_ns_ = now;
  drawn_ = true;
  if (total == 0) {
    std::fprintf(stderr, "\r\033[K%s %s", label_.c_str(), bytes_text(static_cast<double>(done)).c_str());
    return;
  }
  const double part = static_cast<double>(done) / static_cast<double>(total);
  const int filled = static_cast<int>(part * kBarWidth);
  std::string bar(static_cast<size_t>(filled), '#');
  bar.resize(kBarWidth, '.');
  std::fprintf(stderr, "\r\033[K%s [%s] %3.0f%%", label_.c_str(), bar.c_str(), part * 100);
}

std::string number_text(double v, int decimals) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.*f", decimals, v);
  return buffer;
}

std::string bytes_text(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int u = 0;
  for (; bytes >= 1024 && u < 4; ++u) bytes /= 1024;
  return number_text(bytes, u == 0 ? 0 : 1) + " " + units[u];
}

std::string count_text(double v) {
  std::string digits = number_text(v, 0);
  for (int64_t at = static_cast<int64_t>(digits.size()) - 3; at > (digits[0] == '-' ? 1 : 0); at -= 3) {
    digits.insert(static_cast<size_t>(at), " ");
  }
  return digits;
}

std::string seconds_text(double seconds) {
  if (!std::isfinite(seconds)) return "-";
  if (seconds < 1e-3) return number_text(seconds * 1e6, 1) + " us";
  if (seconds < 1) return number_text(seconds * 1e3, 2) + " ms";
  return number_text(seconds, 2) + " s";
}

std::string padded(const std::string& text, int width) {
  const size_t w = static_cast<size_t>(width < 0 ? -width : width);
  if (text.size() >= w) return text;
  const std::string blanks(w - text.size(), ' ');
  return width < 0 ? blanks + text : text + blanks;
}

}  // namespace dpi::tool
