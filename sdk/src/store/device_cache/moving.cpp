// Sets that go from one size class to another: when, and how nobody reads a block that is half cut.
#include <algorithm>
#include <cstddef>

#include "backend/abi/backend_status.hpp"
#include "store/device_cache/device_cache.hpp"

namespace dpi::device_cache {

using kernels::CacheChange;
using kernels::RowCache;

namespace {

constexpr uint64_t kLooksPerLine = 4;      // in a sample a line
constexpr int64_t kLooksToWeigh = 64;      // 16 samples a line
constexpr double kLeastGain = 0.01;        // of all samples: the cache is to be filled again for it
constexpr int32_t kRowsPerLook = 1 << 18;  // of a class
constexpr int64_t kTagsPerStep = 16 * int64_t{tiered::kMostCacheChanges};
constexpr int64_t kMostChanges = tiered::kMostCacheChanges;

}  // namespace

// ---- when

/// Counts rows by their heat, four times in as many samples as there are lines.
void DeviceCache::look_at_heats() {
  if (sampled_ < look_at_) return;
  uint64_t lines = 0;
  for (Class& c : classes_) {
    if (c.copied == nullptr) continue;
    lines += static_cast<uint64_t>(c.lines.size());
    const int32_t step = 1 + c.copied->rows() / kRowsPerLook;
    const auto rows = c.copied->rows_by_heat(static_cast<int32_t>(looks_ % step), step);
    for (size_t heat = 0; heat < rows.size(); ++heat) c.worth.rows[heat] += rows[heat];
  }
  look_at_ = sampled_ + std::max<uint64_t>(1, lines / kLooksPerLine);
  ++looks_;
}

bool DeviceCache::weigh() {
  if (moving_ != kServing || looks_ < kLooksToWeigh) return false;
  std::vector<ClassWorth> worth;
  double all = 0, gain = 0;
  for (Class& c : classes_) {
    worth.push_back(c.worth);
    worth.back().looks = looks_;
    if (c.copied == nullptr) continue;
    const auto seen = c.copied->seen_by_heat();
    for (size_t heat = 0; heat < seen.size(); ++heat) {
      worth.back().seen[heat] = seen[heat] - c.seen_before[heat];
      all += static_cast<double>(worth.back().seen[heat]);
    }
    c.seen_before = seen;
    c.worth.rows = {};
  }
  looks_ = 0;
  look_at_ = sampled_;
  const std::vector<uint32_t> split = split_by_hits(worth, lines_.room);
  for (size_t i = 0; i < split.size(); ++i)
    gain += hits_with(worth[i], split[i]) - hits_with(worth[i], lines_.classes[i].sets);
  if (gain < kLeastGain * all) return false;
  next_ = tiered::cut_lines(host_->plan(), lines_, split);
  moving_ = kClosing;
  return true;
}

std::chrono::milliseconds DeviceCache::between_cuts() const {
  constexpr int64_t kLeast = 60'000, kSteps = 2;  // ms; of a turn
  constexpr int64_t kFillings = 100;              // a filling costs hits: for one hundredth of the time
  int64_t most = 0;
  for (const tiered::LinePlan::Class& c : lines_.classes) most = std::max(most, c.lines());
  return std::chrono::milliseconds(
      std::max(kLeast, kFillings * kSteps * (most / kMostChanges) * kBetweenSteps.count()));
}

// ---- how

Status DeviceCache::move() {
  switch (moving_) {
    case kClosing:
      return close();
    case kClosed:
      return clear_cut();
    case kCleared:
      return write_cut();
    case kWritten:
      return open();
    case kServing:
      break;
  }
  return {};
}

/// The number of a word among the descriptions of the classes on the device.
uint32_t DeviceCache::word_of(const Class& c, size_t offset) {
  return static_cast<uint32_t>((static_cast<size_t>(c.number) * sizeof(RowCache) + offset) /
                               sizeof(uint32_t));
}

/// Has the words written; done when it returns.
Status DeviceCache::set_words(const std::vector<CacheChange>& words) {
  auto* const all = reinterpret_cast<uint32_t*>(aligned_);
  for (size_t at = 0; at < words.size(); at += static_cast<size_t>(kMostChanges)) {
    const auto n = std::min(words.size() - at, static_cast<size_t>(kMostChanges));
    std::copy_n(words.data() + at, n, staged_);
    dpi_backend_error err{};
    DPI_RETURN_IF_ERROR(sync(api_.cache_tags(stream_, all, staged_, static_cast<int32_t>(n), &err), err));
  }
  return {};
}

/// Steps 1 and the bump of 2, once the changes that are under way are through.
Status DeviceCache::close() {
  std::vector<CacheChange> words;
  for (Class& c : classes_) {
    if (c.copied == nullptr) continue;
    DPI_RETURN_IF_ERROR(turn(c));
    if (!c.changes.empty()) return {};
    words.push_back({word_of(c, offsetof(RowCache, sets)), 0});
  }
  DPI_RETURN_IF_ERROR(set_words(words));
  for (Class& c : classes_) {
    // One that is leaving is found nowhere now, and so is free to go.
    c.lines.clear([&](int32_t row) { static_cast<void>(c.copied->let_go(row)); });
  }
  moving_epoch_ = host_->epochs().bump();
  cleared_class_ = 0;
  cleared_line_ = 0;
  moving_ = kClosed;
  return {};
}

/// Step 3: tags, some in each step.
Status DeviceCache::clear_cut() {
  if (!passed(moving_epoch_)) return {};
  int64_t left = kTagsPerStep;
  for (; cleared_class_ < next_.classes.size(); ++cleared_class_, cleared_line_ = 0) {
    const tiered::LinePlan::Class& c = next_.classes[cleared_class_];
    auto* const tags = reinterpret_cast<uint32_t*>(aligned_ + c.tags_at);
    while (cleared_line_ < c.lines()) {
      if (left <= 0) return {};
      const auto n = static_cast<int32_t>(std::min(kMostChanges, c.lines() - cleared_line_));
      for (int32_t i = 0; i < n; ++i) staged_[i] = {static_cast<uint32_t>(cleared_line_ + i), 0};
      dpi_backend_error err{};
      DPI_RETURN_IF_ERROR(sync(api_.cache_tags(stream_, tags, staged_, n, &err), err));
      cleared_line_ += n;
      left -= n;
    }
  }
  moving_ = kCleared;
  return {};
}

/// The rest of step 3 and the bump of 4.
Status DeviceCache::write_cut() {
  lines_ = next_;
  std::vector<CacheChange> words;
  for (Class& c : classes_) {
    if (c.copied == nullptr) continue;
    lay_out(static_cast<size_t>(c.number));
    c.lines = Lines(lines_.classes[static_cast<size_t>(c.number)].sets);
    const auto put = [&](size_t offset, uint64_t value) {
      words.push_back({word_of(c, offset), static_cast<uint32_t>(value)});
      words.push_back({word_of(c, offset) + 1, static_cast<uint32_t>(value >> 32)});
    };
    put(offsetof(RowCache, tags), reinterpret_cast<uintptr_t>(c.tags));
    put(offsetof(RowCache, delta), delta_of(c));
  }
  DPI_RETURN_IF_ERROR(set_words(words));
  moving_epoch_ = host_->epochs().bump();
  moving_ = kWritten;
  return {};
}

/// Step 5.
Status DeviceCache::open() {
  if (!passed(moving_epoch_)) return {};
  std::vector<CacheChange> words;
  for (const Class& c : classes_) {
    if (c.copied == nullptr) continue;
    words.push_back(
        {word_of(c, offsetof(RowCache, sets)), lines_.classes[static_cast<size_t>(c.number)].sets});
  }
  DPI_RETURN_IF_ERROR(set_words(words));
  for (Class& c : classes_) c.swept = c.copied != nullptr ? 0 : c.swept;
  moving_ = kServing;
  const std::lock_guard<std::mutex> lock(mutex_);
  ++counts_.moved;
  for (size_t i = 0; i < split_.size(); ++i) split_[i] = lines_.classes[i].sets;
  return {};
}

}  // namespace dpi::device_cache
