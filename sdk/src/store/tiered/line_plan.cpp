#include "store/tiered/line_plan.hpp"

#include <algorithm>

#include "base/checked.hpp"

namespace dpi::tiered {

namespace {

constexpr int64_t kAlign = 256;
constexpr int64_t kTag = sizeof(uint32_t);
constexpr int64_t kMostLines = (int64_t{1} << 31) - kernels::kCacheWays;  // kInCache is the bit above

int64_t rows_of(const ArenaPlan::Class& c, int32_t reserved) {
  return c.places() + static_cast<int64_t>(c.tables.size()) + reserved;
}

int64_t set_bytes(const ArenaPlan::Class& c) { return (c.stride + kTag) * int64_t{kernels::kCacheWays}; }

/// Sets that a class can use.
int64_t most_sets(const ArenaPlan::Class& c, int32_t reserved) {
  const int64_t rows = rows_of(c, reserved);
  const int64_t lines = std::min(rows + rows / 4 + int64_t{kernels::kCacheWays}, kMostLines);
  return lines / int64_t{kernels::kCacheWays};
}

}  // namespace

LinePlan plan_lines(const ArenaPlan& plan, int32_t reserved, uint64_t budget) {
  LinePlan lines;
  lines.classes.resize(plan.classes.size());
  const auto n = static_cast<int64_t>(plan.classes.size());
  const int64_t fixed =
      round_up(n * static_cast<int64_t>(sizeof(kernels::RowCache)), kAlign) + 4 * kAlign * n;  // alignment
  int64_t left = std::min<int64_t>(static_cast<int64_t>(std::min<uint64_t>(budget, uint64_t{1} << 46)),
                                   int64_t{1} << 46) -
                 fixed;
  double open = 0;
  for (const ArenaPlan::Class& c : plan.classes) open += static_cast<double>(c.places() * c.stride);
  // Small classes first: what they cannot use is the larger ones'.
  std::vector<size_t> order(plan.classes.size());
  for (size_t c = 0; c < order.size(); ++c) order[c] = c;
  const auto bytes = [&](size_t c) { return plan.classes[c].places() * plan.classes[c].stride; };
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return bytes(a) != bytes(b) ? bytes(a) < bytes(b) : a < b; });
  for (const size_t i : order) {
    const ArenaPlan::Class& c = plan.classes[i];
    const auto own = static_cast<double>(c.places() * c.stride);
    const auto share = left > 0 ? static_cast<int64_t>(static_cast<double>(left) * (own / open)) : 0;
    const int64_t sets = std::min(share / set_bytes(c), most_sets(c, reserved));
    lines.classes[i].sets = static_cast<uint32_t>(sets);
    left -= sets * set_bytes(c);
    open -= own;
  }
  int64_t at = round_up(n * static_cast<int64_t>(sizeof(kernels::RowCache)), kAlign);
  bool any = false;
  for (size_t i = 0; i < plan.classes.size(); ++i) {
    LinePlan::Class& c = lines.classes[i];
    if (c.sets == 0) continue;
    any = true;
    c.tags_at = static_cast<uint64_t>(at);
    at = round_up(at + c.lines() * kTag, kAlign);
    c.lines_at = static_cast<uint64_t>(at);
    at = round_up(at + c.lines() * plan.classes[i].stride, kAlign) + kAlign;  // lines lie as their rows do
  }
  lines.device_bytes = any ? static_cast<uint64_t>(at) : 0;
  return lines;
}

CopiedPlaces::Shape copied_shape(const ArenaPlan& plan, const LinePlan& lines, size_t size_class,
                                 int32_t reserved) {
  const ArenaPlan::Class& c = plan.classes[size_class];
  CopiedPlaces::Shape s;
  s.reserved = reserved;
  s.places = static_cast<int32_t>(c.places());
  s.behind = static_cast<int32_t>(c.tables.size());
  s.lines = static_cast<int32_t>(
      std::min<int64_t>(lines.classes[size_class].lines() + kMostCacheChanges, INT32_MAX));
  return s;
}

}  // namespace dpi::tiered
