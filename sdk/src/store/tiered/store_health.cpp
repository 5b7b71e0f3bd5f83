#include "store/tiered/store_health.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <utility>

#include "base/clock.hpp"
#include "base/code_name.hpp"

namespace dpi::tiered {

namespace {

constexpr uint64_t kTellEvery = 1'000'000'000;  // ns

int64_t wall_ms() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::milliseconds>(system_clock::now().time_since_epoch())
      .count();
}

/// Failures of the store itself, not of one table or row, nor of this process.
bool says_down(Code code) { return code == Code::kIo || code == Code::kTimeout || code == Code::kNotFound; }

std::string seconds(uint64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(ns) * 1e-9);
  return text;
}

std::string title(const StoreName& name) {
  return "store '" + name.name + "'" + (name.place.empty() ? "" : " (" + name.place + ")");
}

}  // namespace

StoreHealth::StoreHealth(std::vector<StoreName> stores, const DownOptions& options, LogSink* log)
    : options_(options), log_(log) {
  for (StoreName& name : stores) {
    auto s = std::make_unique<Store>();
    s->is.name = std::move(name);
    s->is.since_ms = wall_ms();
    s->changed_ns = monotonic_ns();
    s->failed_ns.resize(static_cast<size_t>(std::max(1, options.failures)));
    stores_.push_back(std::move(s));
  }
}

std::shared_ptr<const Status> StoreHealth::refusal(int32_t store) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return stores_[static_cast<size_t>(store)]->refusal;
}

void StoreHealth::note(Store* s, const Status& why) {
  ++s->is.failures;
  s->is.last = {why.code(), why.message(), wall_ms()};
}

void StoreHealth::turn(Store* s, bool down, uint64_t now_ns) {
  s->down.store(down, std::memory_order_release);
  s->is.since_ms = wall_ms();
  ++s->changes;
  if (!down) {
    std::fill(s->failed_ns.begin(), s->failed_ns.end(), 0);
    return;
  }
  ++s->is.times_down;
  s->changed_ns = now_ns;
  s->wait_ns = options_.first_probe_ns;
  s->probe_ns = now_ns + s->wait_ns;
}

void StoreHealth::failed(int32_t store, const Status& why, int32_t table, int64_t key) {
  const uint64_t now = monotonic_ns();
  const std::lock_guard<std::mutex> lock(mutex_);
  Store& s = *stores_[static_cast<size_t>(store)];
  note(&s, why);
  if (!says_down(why.code())) return;
  if (s.down.load(std::memory_order_relaxed)) return;
  s.row = {table, key};
  s.failed_ns[s.next_failed] = now;
  s.next_failed = (s.next_failed + 1) % s.failed_ns.size();
  const uint64_t first = s.failed_ns[s.next_failed];  // of the last `failures`
  if (first == 0 || now - first > options_.window_ns) return;
  s.refusal = std::make_shared<const Status>(
      Code::kIo, title(s.is.name) + " is down (store.down=fail); its last error: " + why.message());
  turn(&s, true, now);
}

std::optional<StoreHealth::Probe> StoreHealth::take_probe(int32_t store, uint64_t now_ns) {
  Store& s = *stores_[static_cast<size_t>(store)];
  if (!s.down.load(std::memory_order_relaxed)) return {};
  const std::lock_guard<std::mutex> lock(mutex_);
  if (now_ns < s.probe_ns) return {};
  s.probe_ns = UINT64_MAX;  // until probed()
  ++s.is.probes;
  return s.row;
}

void StoreHealth::probed(int32_t store, const Status& answer, uint64_t now_ns) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Store& s = *stores_[static_cast<size_t>(store)];
  if (!says_down(answer.code()) && answer.code() != Code::kOutOfMemory) return turn(&s, false, now_ns);
  note(&s, answer);
  s.wait_ns = std::min(2 * s.wait_ns, options_.longest_probe_ns);
  s.probe_ns = now_ns + s.wait_ns;
}

std::string StoreHealth::text(Store* s, uint64_t now_ns) const {
  static constexpr const char* kPolicies[] = {"as_miss", "default", "fail"};
  const bool down = s->down.load(std::memory_order_relaxed);
  std::string text = title(s->is.name);
  const std::string failures = std::to_string(s->is.failures - s->told_failures) + " failed reads";
  if (down)
    text += " is down after " + failures + ": " + code_name(s->is.last.code) + ", " + s->is.last.text +
            "; until it answers, rows not cached follow store.down=" +
            kPolicies[static_cast<int>(options_.policy)];
  else
    text += " is up again after " + seconds(now_ns - s->changed_ns) + " and " + failures;
  if (s->changes > 1) text += "; it changed " + std::to_string(s->changes) + " times since the last message";
  s->told_failures = s->is.failures;
  s->told_down = down;
  s->told_ns = now_ns;
  s->changes = 0;
  return text;
}

void StoreHealth::tell(uint64_t now_ns) {
  for (const auto& s : stores_) {
    if (s->down.load(std::memory_order_relaxed) == s->told_down) continue;
    std::string line;
    try {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (s->told_ns != 0 && now_ns - s->told_ns < kTellEvery) continue;
      line = text(s.get(), now_ns);
    } catch (const std::exception&) {
      continue;  // no memory for a text: next time
    }
    if (log_ != nullptr) log_->write(LogLevel::kWarn, "store", line);
  }
}

StoreStatus StoreHealth::status(int32_t store) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Store& s = *stores_[static_cast<size_t>(store)];
  StoreStatus status = s.is;
  status.down = s.down.load(std::memory_order_relaxed);
  return status;
}

}  // namespace dpi::tiered
