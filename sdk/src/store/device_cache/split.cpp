#include "store/device_cache/split.hpp"

#include <algorithm>
#include <cmath>

#include <dpi/kernels/row_cache.hpp>

namespace dpi::device_cache {

namespace {

constexpr double kWays = kernels::kCacheWays;

double rows_at(const ClassWorth& c, size_t heat) {
  return c.looks > 0 ? static_cast<double>(c.rows[heat]) / static_cast<double>(c.looks) : 0;
}

/// Rows of one heat of one class.
struct Level {
  size_t number = 0;  // of the class
  double rows = 0;
  double by_byte = 0;  // samples
};

}  // namespace

double hits_with(const ClassWorth& c, uint32_t sets) {
  double lines = sets * kWays, hits = 0;
  for (size_t heat = c.rows.size(); heat-- > 0 && lines > 0;) {
    const double rows = rows_at(c, heat);
    const double held = std::min(rows, lines);
    if (rows > 0) hits += static_cast<double>(c.seen[heat]) * held / rows;
    lines -= held;
  }
  return hits;
}

std::vector<uint32_t> split_by_hits(const std::vector<ClassWorth>& classes, int64_t room) {
  std::vector<Level> levels;
  for (size_t i = 0; i < classes.size(); ++i) {
    const ClassWorth& c = classes[i];
    for (size_t heat = 0; heat < c.rows.size(); ++heat) {
      const double rows = rows_at(c, heat), bytes = static_cast<double>(c.set_bytes) / kWays;
      if (rows > 0) levels.push_back({i, rows, static_cast<double>(c.seen[heat]) / (rows * bytes)});
    }
  }
  std::stable_sort(levels.begin(), levels.end(),
                   [](const Level& a, const Level& b) { return a.by_byte > b.by_byte; });
  std::vector<uint32_t> sets(classes.size());
  std::vector<double> lines(classes.size());
  for (const Level& level : levels) {
    const ClassWorth& c = classes[level.number];
    lines[level.number] += level.rows;
    const double wanted = std::min(std::ceil(lines[level.number] / kWays), static_cast<double>(c.most_sets));
    uint32_t& has = sets[level.number];
    const auto more = std::min(static_cast<int64_t>(wanted) - has, room / c.set_bytes);
    if (more <= 0) continue;
    has += static_cast<uint32_t>(more);
    room -= more * c.set_bytes;
  }
  // Sets are not equally full: more than there are rows helps, while there is room.
  for (size_t i = 0; i < classes.size(); ++i) {
    const int64_t more = std::min<int64_t>(classes[i].most_sets - sets[i], room / classes[i].set_bytes);
    sets[i] += static_cast<uint32_t>(more);
    room -= more * classes[i].set_bytes;
  }
  return sets;
}

}  // namespace dpi::device_cache
