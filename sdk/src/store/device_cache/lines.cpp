#include "store/device_cache/lines.hpp"

namespace dpi::device_cache {

using kernels::kCacheWays;

uint32_t Lines::line_of(int32_t row) const {
  if (sets_ == 0) return kNone;
  const uint32_t first = kernels::cache_set(static_cast<uint32_t>(row), sets_) * kCacheWays;
  for (uint32_t line = first; line < first + kCacheWays; ++line) {
    if (tags_[line] == static_cast<uint32_t>(row) + 1) return line;
  }
  return kNone;
}

Lines::Taken Lines::take(int32_t row, const tiered::CopiedPlaces& rows, bool in_empty) {
  if (sets_ == 0) return {};
  const uint32_t first = kernels::cache_set(static_cast<uint32_t>(row), sets_) * kCacheWays;
  Taken best;
  int least = rows.heat(row);  // only a colder row gives way
  for (uint32_t line = first; line < first + kCacheWays; ++line) {
    const uint32_t tag = tags_[line];
    if (tag == kEmpty) {
      best = {line, -1};
      break;
    }
    if (in_empty || tag == kTaken) continue;
    const auto old = static_cast<int32_t>(tag - 1);
    if (rows.is_fixed(old) || rows.heat(old) >= least) continue;
    least = rows.heat(old);
    best = {line, old};
  }
  if (best.line != kNone) tags_[best.line] = kTaken;
  return best;
}

uint32_t Lines::take_empty(int32_t row) {
  if (line_of(row) != kNone) return kNone;
  const uint32_t first = kernels::cache_set(static_cast<uint32_t>(row), sets_) * kCacheWays;
  for (uint32_t line = first; line < first + kCacheWays; ++line) {
    if (tags_[line] != kEmpty) continue;
    give(line, row);
    return line;
  }
  return kNone;
}

}  // namespace dpi::device_cache
