#include "support/memory_watch.hpp"

#include <unistd.h>

#include <cstdio>

namespace dpi::soak {

uint64_t resident_bytes() {
  unsigned long pages = 0, resident = 0;
  std::FILE* f = std::fopen("/proc/self/statm", "r");
  if (f == nullptr) return 0;
  const int read = std::fscanf(f, "%lu %lu", &pages, &resident);
  std::fclose(f);
  return read == 2 ? uint64_t{resident} * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) : 0;
}

double MemoryWatch::rise() const {
  const size_t begin = samples_.size() / 3, n = samples_.size() - begin;
  if (n < 2) return 0;
  double mean_x = 0, mean_y = 0, xy = 0, xx = 0;
  for (size_t i = 0; i < n; ++i) {
    mean_x += static_cast<double>(i) / static_cast<double>(n);
    mean_y += samples_[begin + i] / static_cast<double>(n);
  }
  for (size_t i = 0; i < n; ++i) {
    const double x = static_cast<double>(i) - mean_x;
    xy += x * (samples_[begin + i] - mean_y);
    xx += x * x;
  }
  return xy / xx * static_cast<double>(n - 1);
}

}  // namespace dpi::soak
