#include "store/device_cache/device_cache.hpp"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "backend/abi/backend_status.hpp"
#include "base/block_signals.hpp"

namespace dpi::device_cache {

using kernels::CacheChange;
using kernels::RowCache;
using tiered::kMostCacheChanges;

namespace {

constexpr auto kAtEase = std::chrono::milliseconds(20);  // nothing is under way
constexpr auto kAfterFailure = std::chrono::milliseconds(100);
constexpr uint64_t kAlign = 256;
constexpr uint64_t kSamplesPerCooling = 8;  // a line
constexpr int32_t kRowsPerSweep = 1 << 16;
constexpr size_t kMostTurns = static_cast<size_t>(kMostCacheChanges);
constexpr int32_t kLowestPriority = 0;  // calls beside it have a higher one: Flight::create_streams

}  // namespace

// ---- its life

Result<std::unique_ptr<DeviceCache>> DeviceCache::make(const dpi_backend_api& api, dpi_backend_device* device,
                                                       tiered::HostCache* host,
                                                       const std::vector<uint32_t>& split) {
  try {
    std::unique_ptr<DeviceCache> made(new DeviceCache(api, device, host));
    DPI_RETURN_IF_ERROR(made->take_memory(split));
    return made;
  } catch (const std::bad_alloc&) {
    return Status(Code::kOutOfMemory, "no memory for the device's cache");
  }
}

uint64_t DeviceCache::host_bytes(const tiered::LinePlan& plan) {
  uint64_t bytes = kMostTurns * sizeof(CacheChange);
  int64_t least = INT64_MAX;  // of a set: however the block is cut, no more of them fit
  for (const auto& c : plan.classes) {
    least = std::min(least, c.set_bytes);
    bytes += sizeof(Class) + kMostTurns * (sizeof(Change) + 2 * sizeof(int32_t)) +
             tiered::CopiedPlaces::kMostWarm * sizeof(int32_t);
  }
  return bytes + Lines::bytes(static_cast<uint32_t>(plan.room / least));
}

Status DeviceCache::take_memory(const std::vector<uint32_t>& split) {
  lines_ = host_->lines();
  if (tiered::fits(lines_, split)) lines_ = tiered::cut_lines(host_->plan(), lines_, split);
  for (const tiered::LinePlan::Class& c : lines_.classes) split_.push_back(c.sets);
  dpi_backend_error err{};
  void* staged = nullptr;
  int32_t code = api_.alloc(device_, lines_.device_bytes, DPI_MEMORY_TABLE, &block_, &err);
  DPI_RETURN_IF_ERROR(backend_status(code, err, "the device's cache"));
  code = api_.alloc(device_, kMostTurns * sizeof(CacheChange), DPI_MEMORY_STAGING, &staged, &err);
  DPI_RETURN_IF_ERROR(backend_status(code, err, "changes of the device's cache"));
  staged_ = static_cast<CacheChange*>(staged);
  code = api_.stream_create(device_, kLowestPriority, &stream_, &err);
  DPI_RETURN_IF_ERROR(backend_status(code, err, "the stream of the device's cache"));
  classes_.resize(lines_.classes.size());
  auto* const base = static_cast<std::byte*>(block_);
  aligned_ = base + (kAlign - reinterpret_cast<uintptr_t>(base) % kAlign) % kAlign;
  for (size_t i = 0; i < classes_.size(); ++i) {
    if (host_->copied(static_cast<int32_t>(i)) != nullptr) DPI_RETURN_IF_ERROR(describe(i));
  }
  return {};
}

/// Where the class' tags and lines lie in the block as it is cut now.
void DeviceCache::lay_out(size_t i) {
  const tiered::LinePlan::Class& plan = lines_.classes[i];
  Class& c = classes_[i];
  c.tags = reinterpret_cast<uint32_t*>(aligned_ + plan.tags_at);
  // What may be read in whole words there may be here.
  c.rows = aligned_ + plan.lines_at + reinterpret_cast<uintptr_t>(c.table) % kAlign;
}

/// The class, with lines that are empty.
Status DeviceCache::describe(size_t i) {
  Class& c = classes_[i];
  c.number = static_cast<int32_t>(i);
  c.copied = host_->copied(c.number);
  c.stride = host_->plan().classes[i].stride;
  c.table = host_->first_row(c.number);
  lay_out(i);
  c.lines = Lines(lines_.classes[i].sets);
  c.changes.reserve(kMostTurns);
  c.worth.set_bytes = lines_.classes[i].set_bytes;
  c.worth.most_sets = lines_.classes[i].most_sets;
  RowCache of_class;
  of_class.tags = c.tags;
  of_class.delta = delta_of(c);
  of_class.sets = lines_.classes[i].sets;
  std::byte* const at = aligned_ + i * sizeof(RowCache);
  c.on_device = reinterpret_cast<const RowCache*>(at);
  dpi_backend_error err{};
  int32_t code = api_.upload(device_, at, &of_class, sizeof of_class, &err);
  const std::vector<uint32_t> none(std::min<size_t>(static_cast<size_t>(c.lines.size()), size_t{1} << 18), 0);
  for (int64_t line = 0; code == 0 && line < c.lines.size(); line += static_cast<int64_t>(none.size())) {
    const auto n = std::min<int64_t>(static_cast<int64_t>(none.size()), c.lines.size() - line);
    code = api_.upload(device_, c.tags + line, none.data(), static_cast<size_t>(n) * sizeof(uint32_t), &err);
  }
  return backend_status(code, err, "the device's cache");
}

DeviceCache::~DeviceCache() {
  stop();
  if (stream_ != nullptr) api_.stream_destroy(device_, stream_);
  if (staged_ != nullptr) api_.free(device_, staged_, DPI_MEMORY_STAGING);
  if (block_ != nullptr) api_.free(device_, block_, DPI_MEMORY_TABLE);
}

Status DeviceCache::start() {
  for (const Class& c : classes_) {
    if (c.copied == nullptr) continue;
    c.copied->on_leaving([this] {
      const std::lock_guard<std::mutex> lock(mutex_);
      leaving_ = true;
      woken_.notify_one();
    });
  }
  const BlockSignals blocked;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& e) {
    return Status(Code::kOutOfMemory, std::string("the thread of the device's cache: ") + e.what())
        .native(e.code().value());
  }
  return {};
}

void DeviceCache::stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    woken_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
  for (const Class& c : classes_) {
    if (c.copied != nullptr) c.copied->on_leaving({});
  }
}

bool DeviceCache::pending() const {
  if (moving_ != kServing) return true;
  return std::any_of(classes_.begin(), classes_.end(), [](const Class& c) {
    return !c.changes.empty() || !c.leaving.empty() || (c.copied != nullptr && c.swept < c.copied->rows());
  });
}

void DeviceCache::run() {
  using Clock = std::chrono::steady_clock;
  pthread_setname_np(pthread_self(), "dpi-copies");
  const auto leave = [this]() -> Status {
    DPI_RETURN_IF_ERROR(settle());
    for (Class& c : classes_) {
      if (c.copied != nullptr) DPI_RETURN_IF_ERROR(clear_leaving(c));
    }
    return {};
  };
  auto next = Clock::now();  // step; what is to leave does not wait for it
  auto cut = next + between_cuts();
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_) {
    leaving_ = false;
    lock.unlock();
    bool failed = true;
    try {
      const bool whole = Clock::now() >= next;
      failed = !(whole ? step() : leave()).ok();
      if (whole && Clock::now() >= cut) {
        static_cast<void>(weigh());
        cut = Clock::now() + between_cuts();
      }
      if (whole) next = Clock::now() + (pending() ? kBetweenSteps : kAtEase);
    } catch (const std::bad_alloc&) {  // as a call that failed
    }
    const auto until = failed ? Clock::now() + kAfterFailure : next;
    lock.lock();
    if (failed) ++counts_.failed;
    woken_.wait_until(lock, until, [&] { return stop_ || (leaving_ && !failed); });
  }
}

Counts DeviceCache::counts() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return counts_;
}

std::vector<uint32_t> DeviceCache::split() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return split_;
}

// ---- the device

Status DeviceCache::sync(int32_t code, const dpi_backend_error& err) {
  DPI_RETURN_IF_ERROR(backend_status(code, err, "the device's cache"));
  reads_staged_ = true;
  return settle();
}

/// Waits for reads that were started before a failed wait. Nothing else is staged until they are through.
Status DeviceCache::settle() {
  if (!reads_staged_) return {};
  dpi_backend_error late{};
  DPI_RETURN_IF_ERROR(backend_status(api_.stream_synchronize(stream_, &late), late, "the device's cache"));
  reads_staged_ = false;
  return {};
}

/// Sets the tags of the first n of staged_; done when it returns.
Status DeviceCache::set_tags(Class& c, int32_t n) {
  dpi_backend_error err{};
  return sync(api_.cache_tags(stream_, c.tags, staged_, n, &err), err);
}

// ---- what leaves

/// Where the device may have the row: a line that holds it, or that a change brings it to, since the last try
/// to publish may have failed after it was done.
uint32_t DeviceCache::line_of(const Class& c, int32_t row) const {
  const auto at =
      std::find_if(c.changes.begin(), c.changes.end(), [row](const Change& of) { return of.row == row; });
  return at != c.changes.end() ? at->line : c.lines.line_of(row);
}

/// Rows whose places are to be used again: their tags go, then they may.
Status DeviceCache::clear_leaving(Class& c) {
  c.copied->take_leaving(&c.leaving);
  if (!c.leaving.empty() && !c.changes.empty() && c.at == Class::kChosen)
    DPI_RETURN_IF_ERROR(clear_old(c));  // which had failed: from here on no line is out of use with a tag
  while (!c.leaving.empty()) {
    const auto n = std::min(c.leaving.size(), kMostTurns);
    const std::span<const int32_t> rows(c.leaving.data() + (c.leaving.size() - n), n);
    std::vector<uint32_t> lines;
    for (const int32_t row : rows) {
      const uint32_t line = line_of(c, row);
      if (line != Lines::kNone) lines.push_back(line);
    }
    for (size_t i = 0; i < lines.size(); ++i) staged_[i] = {lines[i], 0};
    if (!lines.empty()) DPI_RETURN_IF_ERROR(set_tags(c, static_cast<int32_t>(lines.size())));
    for (const uint32_t line : lines) {
      c.lines.free(line);  // who takes it waits for readers, as for any line
      std::erase_if(c.changes, [line](const Change& of) { return of.line == line; });
    }
    host_->left(c.number, rows);
    c.leaving.resize(c.leaving.size() - n);
    const std::lock_guard<std::mutex> lock(mutex_);
    counts_.cleared += lines.size();
  }
  return {};
}

// ---- what comes

/// Rows that were seen often enough take lines, as many as there are turns.
void DeviceCache::choose(Class& c) {
  warm_.clear();
  const uint64_t seen = c.copied->take_warm(&warm_);
  sampled_ += seen;
  c.seen += seen;
  // A class with few lines is looked at for long enough to see which rows more lines would have.
  const int64_t lines =
      std::max(c.lines.size(), lines_.classes[static_cast<size_t>(c.number)].most_lines() / 4);
  if (c.seen >= kSamplesPerCooling * static_cast<uint64_t>(lines)) {
    c.copied->cool();
    c.seen = 0;
  }
  for (auto row = warm_.rbegin(); row != warm_.rend() && c.changes.size() < kMostTurns; ++row) {
    if (!c.copied->hold(*row)) continue;  // it has gone, or has a line
    const Lines::Taken taken = c.lines.take(*row, *c.copied, false);
    if (taken.line == Lines::kNone) {
      static_cast<void>(c.copied->let_go(*row));  // if it is leaving take_leaving has it
      continue;
    }
    c.changes.push_back({taken.line, *row, taken.old});
  }
  sweep(c);
  c.at = Class::kChosen;
}

/// Warm rows take lines that a new cut has left empty.
void DeviceCache::sweep(Class& c) {
  const int32_t end = std::min<int64_t>(c.copied->rows(), int64_t{c.swept} + kRowsPerSweep);
  for (; c.swept < end && c.changes.size() < kMostTurns; ++c.swept) {
    if (c.copied->heat(c.swept) > 0 || c.copied->is_fixed(c.swept)) take_empty(c, c.swept);
  }
}

/// The row is to get an empty line of its set, if there is one and it has none.
void DeviceCache::take_empty(Class& c, int32_t row) {
  if (!c.copied->hold(row)) return;
  const Lines::Taken taken = c.lines.take(row, *c.copied, true);
  if (taken.line != Lines::kNone) {
    c.changes.push_back({taken.line, row, -1});
  } else {
    static_cast<void>(c.copied->let_go(row));  // if it is leaving take_leaving has it
  }
}

/// Step 1 and the bump of step 2.
Status DeviceCache::clear_old(Class& c) {
  int32_t n = 0;
  for (const Change& change : c.changes) {
    if (change.old >= 0) staged_[n++] = {change.line, 0};
  }
  if (n > 0) DPI_RETURN_IF_ERROR(set_tags(c, n));
  for (Change& change : c.changes) {
    // One that is leaving is found nowhere now, and so is free to go.
    if (change.old >= 0) static_cast<void>(c.copied->let_go(change.old));
    change.old = -1;
  }
  c.epoch = host_->epochs().bump();
  c.at = Class::kCleared;
  const std::lock_guard<std::mutex> lock(mutex_);
  counts_.cleared += static_cast<uint64_t>(n);
  return {};
}

int32_t DeviceCache::stage_rows(const Class& c) {
  int32_t n = 0;
  for (const Change& change : c.changes) staged_[n++] = {change.line, static_cast<uint32_t>(change.row) + 1};
  return n;
}

/// Step 3. Every row is held, whoever wants it to leave.
Status DeviceCache::copy(Class& c) {
  const int32_t n = stage_rows(c);
  dpi_backend_error err{};
  if (n > 0)
    DPI_RETURN_IF_ERROR(sync(
        api_.cache_rows(stream_, c.rows, c.table, static_cast<size_t>(c.stride), staged_, n, &err), err));
  c.at = Class::kCopied;
  return {};
}

/// Step 4.
Status DeviceCache::publish(Class& c) {
  const int32_t n = stage_rows(c);
  if (n > 0) DPI_RETURN_IF_ERROR(set_tags(c, n));
  for (const Change& change : c.changes) c.lines.give(change.line, change.row);
  c.changes.clear();
  const std::lock_guard<std::mutex> lock(mutex_);
  counts_.filled += static_cast<uint64_t>(n);
  return {};
}

Status DeviceCache::turn(Class& c) {
  if (c.changes.empty() && moving_ == kServing) choose(c);
  if (c.changes.empty()) return {};
  if (c.at == Class::kChosen) return clear_old(c);
  if (c.at == Class::kCleared) {
    if (!passed(c.epoch)) return {};
    DPI_RETURN_IF_ERROR(copy(c));
  }
  return publish(c);
}

Status DeviceCache::step() {
  host_->learn();
  DPI_RETURN_IF_ERROR(settle());
  for (Class& c : classes_) {
    if (c.copied != nullptr) DPI_RETURN_IF_ERROR(clear_leaving(c));
  }
  if (moving_ != kServing) return move();
  for (Class& c : classes_) {
    if (c.copied != nullptr) DPI_RETURN_IF_ERROR(turn(c));
  }
  look_at_heats();
  return {};
}

/// Rows that are there and at least so warm, as long as their sets have empty lines.
Status DeviceCache::fill(Class& c, int least_heat) {
  const auto finish = [&]() -> Status {
    DPI_RETURN_IF_ERROR(copy(c));
    return publish(c);
  };
  for (int32_t row = 0; row < c.copied->rows(); ++row) {
    if (c.copied->heat(row) >= least_heat || c.copied->is_fixed(row)) take_empty(c, row);
    if (c.changes.size() == kMostTurns) DPI_RETURN_IF_ERROR(finish());
  }
  return finish();
}

/// The hottest rows that so many lines have room for have at least this heat.
int DeviceCache::least_heat_of(const Class& c, int64_t lines) {
  const tiered::CopiedPlaces::Levels rows = c.copied->rows_by_heat(0, 1);
  auto heat = rows.size();
  for (int64_t n = 0; heat > 1; --heat) {
    n += static_cast<int64_t>(rows[heat - 1]);
    if (n > lines) break;
  }
  return static_cast<int>(heat);
}

/// First rows of half of the lines, since sets are not equally full, then of all, then what is warm at all.
Status DeviceCache::prefill() {
  for (Class& c : classes_) {
    if (c.copied == nullptr) continue;
    const int64_t lines = c.lines.size();
    for (const int least : {least_heat_of(c, lines / 2), least_heat_of(c, lines), 1, 0})
      DPI_RETURN_IF_ERROR(fill(c, least));
  }
  return {};
}

}  // namespace dpi::device_cache
