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

std::string title(const StoreName& name, const std::string& node) {
  const std::string store = "store '" + name.name + "'";
  if (!node.empty()) return "node " + node + " of " + store;
  return store + (name.place.empty() ? "" : " (" + name.place + ")");
}

/// Numbers of partitions and milliseconds differ from failure to failure.
bool same_cause(const StoreFailure& a, const StoreFailure& b) {
  const auto words = [](std::string text) {
    std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
    return text;
  };
  return a.code == b.code && words(a.text) == words(b.text);
}

}  // namespace

StoreHealth::StoreHealth(std::vector<StoreName> stores, const DownOptions& options, LogSink* log)
    : options_(options), log_(log) {
  for (StoreName& name : stores) {
    auto s = std::make_unique<Store>();
    s->is.name = std::move(name);
    s->is.since_ms = wall_ms();
    stores_.push_back(std::move(s));
  }
}

std::shared_ptr<const Status> StoreHealth::refusal(int32_t store, int32_t route) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto& r = at(store).routes[static_cast<size_t>(route)];
  return r != nullptr ? r->refusal : nullptr;
}

void StoreHealth::note(Store* s, Route* r, const Status& why) {
  ++s->is.failures;
  ++r->failures;
  s->is.last = r->last = {why.code(), why.message(), wall_ms()};
}

void StoreHealth::turn(Store* s, int32_t route, bool down, uint64_t now_ns) const {
  Route& r = route_of(*s, route);
  const uint64_t before = s->down.load(std::memory_order_relaxed), bit = uint64_t{1} << route;
  const uint64_t after = down ? before | bit : before & ~bit;
  s->down.store(after, std::memory_order_release);
  if ((before == 0) != (after == 0)) s->is.since_ms = wall_ms();
  ++r.changes;
  if (!down) {
    std::fill(r.failed_ns.begin(), r.failed_ns.end(), 0);
    return;
  }
  ++s->is.times_down;
  ++r.times_down;
  r.changed_ns = now_ns;
  r.wait_ns = options_.first_probe_ns;
  r.probe_ns = now_ns + r.wait_ns;
}

void StoreHealth::refuse(const Store& s, Route* r) const {
  r->refusal = std::make_shared<const Status>(
      Code::kIo, title(s.is.name, r->node) + " is down (store.down=fail); its last error: " + r->last.text);
}

void StoreHealth::failed(int32_t store, const Row& row, const std::string& node, const Status& why) {
  const uint64_t now = monotonic_ns();
  const std::lock_guard<std::mutex> lock(mutex_);
  Store& s = at(store);
  auto& place = s.routes[static_cast<size_t>(row.route)];
  if (place == nullptr) {
    place = std::make_unique<Route>();
    place->failed_ns.resize(static_cast<size_t>(std::max(1, options_.failures)));
  }
  Route& r = *place;
  note(&s, &r, why);
  if (!says_down(why.code()) || is_down(s, row.route)) return;
  r.row = row;
  r.node = node;
  r.failed_ns[r.next_failed] = now;
  r.next_failed = (r.next_failed + 1) % r.failed_ns.size();
  const uint64_t first = r.failed_ns[r.next_failed];  // of the last `failures`
  if (first == 0 || now - first > options_.window_ns) return;
  refuse(s, &r);
  turn(&s, row.route, true, now);
}

std::optional<StoreHealth::Row> StoreHealth::take_probe(int32_t store, uint64_t now_ns) {
  Store& s = at(store);
  if (down_routes(store) == 0) return {};
  const std::lock_guard<std::mutex> lock(mutex_);
  Route* due = nullptr;
  for (int32_t route = 0; route < kRoutes; ++route) {
    if (!is_down(s, route)) continue;
    Route& r = route_of(s, route);
    if (r.probe_ns <= now_ns && (due == nullptr || r.probe_ns < due->probe_ns)) due = &r;
  }
  if (due == nullptr) return {};
  due->probe_ns = UINT64_MAX;  // until probed()
  ++due->probes;
  ++s.is.probes;
  return due->row;
}

void StoreHealth::probed(int32_t store, int32_t route, const Status& answer, uint64_t now_ns) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Store& s = at(store);
  if (!says_down(answer.code()) && answer.code() != Code::kOutOfMemory) return turn(&s, route, false, now_ns);
  Route& r = route_of(s, route);
  note(&s, &r, answer);
  refuse(s, &r);
  r.wait_ns = std::min(2 * r.wait_ns, options_.longest_probe_ns);
  r.probe_ns = now_ns + r.wait_ns;
}

std::string StoreHealth::text(const Store& s, int32_t route, uint64_t now_ns) const {
  static constexpr const char* kPolicies[] = {"as_miss", "default", "fail"};
  Route& r = route_of(s, route);
  const bool down = is_down(s, route);
  std::string text = title(s.is.name, r.node);
  const std::string failures = std::to_string(r.failures - r.told_failures) + " failed reads";
  if (down)
    text += " is down after " + failures + ": " + code_name(r.last.code) + ", " + r.last.text +
            "; until it answers, " + (r.node.empty() ? "" : "its ") +
            "rows not cached follow store.down=" + kPolicies[static_cast<int>(options_.policy)];
  else
    text += (r.node.empty() ? " is up again after " : ": its rows are read again, after ") +
            seconds(now_ns - r.changed_ns) + " and " + failures;
  if (r.changes > 1) text += "; it changed " + std::to_string(r.changes) + " times since the last message";
  r.told_failures = r.failures;
  r.told_down = down;
  r.told = r.last;
  r.told_ns = now_ns;
  r.changes = 0;
  return text;
}

std::string StoreHealth::other_cause(const Store& s, int32_t route, uint64_t now_ns) const {
  Route& r = route_of(s, route);
  r.told = r.last;
  r.told_ns = now_ns;
  return title(s.is.name, r.node) + " is still down, and for another cause: " + code_name(r.last.code) +
         ", " + r.last.text;
}

void StoreHealth::tell(uint64_t now_ns) {
  for (const auto& s : stores_) {
    if (s->down.load(std::memory_order_relaxed) == 0 && !s->told_down) continue;
    std::vector<std::string> lines;
    try {
      const std::lock_guard<std::mutex> lock(mutex_);
      bool told_down = false;
      for (int32_t route = 0; route < kRoutes; ++route) {
        if (s->routes[static_cast<size_t>(route)] == nullptr) continue;
        const Route& r = route_of(*s, route);
        const uint64_t since = r.told_ns == 0 ? UINT64_MAX : now_ns - r.told_ns;
        if (is_down(*s, route) != r.told_down) {
          if (since >= kTellEvery) lines.push_back(text(*s, route, now_ns));
        } else if (r.told_down && since >= options_.other_cause_ns && !same_cause(r.last, r.told)) {
          lines.push_back(other_cause(*s, route, now_ns));
        }
        told_down = told_down || r.told_down;
      }
      s->told_down = told_down;
    } catch (const std::exception&) {
      s->told_down = true;  // no memory for a text: next time
    }
    for (const std::string& line : lines) {
      if (log_ != nullptr) log_->write(LogLevel::kWarn, "store", line);
    }
  }
}

StoreStatus StoreHealth::status(int32_t store, std::vector<StoreNode> nodes) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Store& s = at(store);
  StoreStatus status = s.is;
  status.down = down_routes(store) != 0;
  status.nodes = std::move(nodes);
  for (StoreNode& node : status.nodes) {
    if (s.routes[static_cast<size_t>(node.route)] == nullptr) continue;
    const Route& r = route_of(s, node.route);
    node.open = is_down(s, node.route);
    node.times_down = r.times_down, node.probes = r.probes;
  }
  return status;
}

}  // namespace dpi::tiered
