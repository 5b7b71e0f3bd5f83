#include "terminal.hpp"

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <utility>

#include "base/clock.hpp"

namespace dpi::tool {

namespace {
constexpr uint64_t kRedrawNs = 100'000'000;
constexpr int kBarWidth = 32;
}  // namespace

Progress::Progress(std::string label) : label_(std::move(label)), terminal_(isatty(STDERR_FILENO) == 1) {}

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
