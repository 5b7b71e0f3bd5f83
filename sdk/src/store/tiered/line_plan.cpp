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

int64_t bytes_of(const ArenaPlan::Class& c) { return c.places() * c.stride; }

/// By the bytes of the classes' places; small ones first, since what they cannot use is the larger ones'.
std::vector<uint32_t> split_by_bytes(const ArenaPlan& plan, const LinePlan& lines) {
  std::vector<size_t> order(plan.classes.size());
  double open = 0;
  for (size_t c = 0; c < order.size(); ++c) {
    order[c] = c;
    open += static_cast<double>(bytes_of(plan.classes[c]));
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const int64_t of_a = bytes_of(plan.classes[a]), of_b = bytes_of(plan.classes[b]);
    return of_a != of_b ? of_a < of_b : a < b;
  });
  std::vector<uint32_t> sets(order.size());
  int64_t left = lines.room;
  for (const size_t i : order) {
    const LinePlan::Class& c = lines.classes[i];
    const auto own = static_cast<double>(bytes_of(plan.classes[i]));
    const auto share = static_cast<int64_t>(static_cast<double>(left) * (own / open));
    sets[i] = static_cast<uint32_t>(std::min<int64_t>(share / c.set_bytes, c.most_sets));
    left -= sets[i] * c.set_bytes;
    open -= own;
  }
  for (const size_t i : order) {  // what rounding left
    const LinePlan::Class& c = lines.classes[i];
    const auto more = std::min<int64_t>(left / c.set_bytes, c.most_sets - sets[i]);
    sets[i] += static_cast<uint32_t>(more);
    left -= more * c.set_bytes;
  }
  return sets;
}

}  // namespace

LinePlan plan_lines(const ArenaPlan& plan, int32_t reserved, uint64_t budget) {
  LinePlan lines;
  const auto n = static_cast<int64_t>(plan.classes.size());
  const int64_t fixed = round_up(n * static_cast<int64_t>(sizeof(kernels::RowCache)), kAlign) +
                        (4 * n + 1) * kAlign;  // of classes, and of the block
  const auto bytes = static_cast<int64_t>(std::min<uint64_t>(budget, uint64_t{1} << 46));
  int64_t usable = 0;  // by all classes together
  for (const ArenaPlan::Class& c : plan.classes) {
    LinePlan::Class& of = lines.classes.emplace_back();
    of.set_bytes = set_bytes(c);
    const int64_t most = std::min(most_sets(c, reserved), std::max<int64_t>(0, bytes - fixed) / of.set_bytes);
    of.most_sets = static_cast<uint32_t>(most);
    usable += most * of.set_bytes;
  }
  lines.room = std::clamp<int64_t>(bytes - fixed, 0, usable);
  const std::vector<uint32_t> sets = split_by_bytes(plan, lines);
  if (std::all_of(sets.begin(), sets.end(), [](uint32_t s) { return s == 0; })) lines.room = 0;
  if (lines.room > 0) lines.device_bytes = static_cast<uint64_t>(fixed + lines.room);
  return cut_lines(plan, lines, sets);
}

bool fits(const LinePlan& lines, const std::vector<uint32_t>& sets) {
  if (sets.size() != lines.classes.size()) return false;
  int64_t bytes = 0;
  for (size_t i = 0; i < sets.size(); ++i) {
    if (sets[i] > lines.classes[i].most_sets) return false;
    bytes += sets[i] * lines.classes[i].set_bytes;
  }
  return bytes <= lines.room;
}

LinePlan cut_lines(const ArenaPlan& plan, const LinePlan& lines, const std::vector<uint32_t>& sets) {
  LinePlan cut = lines;
  const auto n = static_cast<int64_t>(plan.classes.size());
  int64_t at = round_up(n * static_cast<int64_t>(sizeof(kernels::RowCache)), kAlign);
  for (size_t i = 0; i < plan.classes.size(); ++i) {
    LinePlan::Class& c = cut.classes[i];
    c.sets = sets[i];
    c.tags_at = static_cast<uint64_t>(at);
    at = round_up(at + c.lines() * kTag, kAlign);
    c.lines_at = static_cast<uint64_t>(at);
    at = round_up(at + c.lines() * plan.classes[i].stride, kAlign) + kAlign;  // lines lie as their rows do
  }
  return cut;
}

CopiedPlaces::Shape copied_shape(const ArenaPlan& plan, const LinePlan& lines, size_t size_class,
                                 int32_t reserved) {
  const ArenaPlan::Class& c = plan.classes[size_class];
  CopiedPlaces::Shape s;
  s.reserved = reserved;
  s.places = static_cast<int32_t>(c.places());
  s.behind = static_cast<int32_t>(c.tables.size());
  s.lines = static_cast<int32_t>(
      std::min<int64_t>(lines.classes[size_class].most_lines() + kMostCacheChanges, INT32_MAX));
  return s;
}

}  // namespace dpi::tiered
