// The endpoint's own thread: frees the version that was kept for a rollback when its time is over, hashes
// what serves (bundle/leaf_hashes.hpp), and looks into the followed folder. A file that cannot be loaded
// holds nothing up: the next lower number that is above what served gets its turn, and the file is tried
// again when it may go better: when it is replaced, or after a pause that doubles, unless the file itself was
// at fault.
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "base/clock.hpp"
#include "base/float_env.hpp"
#include "runtime/endpoint/endpoint.hpp"

namespace dpi {

namespace {

constexpr uint64_t kNsPerMs = 1'000'000;

/// The n-th pause, n from 1: doubled each time, up to a bound.
uint64_t pause_ns(int64_t n, const EndpointSettings& s) {
  const auto doubled =
      static_cast<double>(s.follow_ms) * static_cast<double>(uint64_t{1} << std::min<int64_t>(n, 40));
  return static_cast<uint64_t>(std::min(doubled, static_cast<double>(s.back_off_ms))) * kNsPerMs;
}

/// True if this process can never load the same bytes.
bool is_files_fault(Code code) {
  return code == Code::kBadModel || code == Code::kUnsupported || code == Code::kVersion;
}

}  // namespace

Status Endpoint::follow(const std::string& folder) {
  DPI_RETURN_IF_ERROR(check_process());
  if (in_callback())
    return invalid_argument("endpoint '" + name_ + "' is asked to follow by a callback that hears of it");
  unsubscribe();
  return follow_folder(folder);
}

Status Endpoint::follow_folder(const std::string& folder) {
  if (folder.empty()) return invalid_argument("the folder's name is empty");
  const std::lock_guard<std::mutex> lock(state_mutex_);
  folder_ = folder;
  look_at_ns_ = 0;
  folder_errors_ = 0;
  folder_status_ = {};
  refused_.clear();
  passed_.clear();
  is_first_look_ = true;
  gaps_.clear();
  changed_.notify_all();
  return {};
}

void Endpoint::unfollow() {
  if (forked() || in_callback()) return;
  unsubscribe();
  const std::lock_guard<std::mutex> lock(state_mutex_);
  folder_.clear();
  refused_.clear();
  passed_.clear();
  gaps_.clear();
}

Status Endpoint::wait(uint64_t number, uint64_t deadline_ns) {
  DPI_RETURN_IF_ERROR(check_process());
  std::unique_lock<std::mutex> lock(state_mutex_);
  const auto there = [&] { return serving_ != nullptr && serving_->number >= number; };
  if (deadline_ns == 0) {
    changed_.wait(lock, there);
  } else if (!changed_.wait_until(lock, steady_time(deadline_ns), there)) {
    return {Code::kTimeout,
            "endpoint '" + name_ + "' serves " +
                (serving_ != nullptr ? "version " + std::to_string(serving_->number) : "nothing") +
                ", waited for version " + std::to_string(number)};
  }
  return {};
}

void Endpoint::work() {
  pthread_setname_np(pthread_self(), "dpi-endpoint");
  const FloatEnvironment standard;  // a thread begins with its starter's
  std::unique_lock<std::mutex> lock(state_mutex_);
  while (!stopping()) {
    const uint64_t due = next_due();
    if (due == UINT64_MAX) {
      changed_.wait(lock);
      continue;
    }
    if (due > monotonic_ns()) {
      changed_.wait_until(lock, steady_time(due));
      continue;
    }
    lock.unlock();
    try {
      expire();
      poll();
      hash_leaf();
    } catch (const std::bad_alloc&) {
      note_out_of_memory();
    }
    lock.lock();
  }
}

/// With state_mutex_ held.
uint64_t Endpoint::next_due() const {
  return std::min({kept_ != nullptr ? kept_until_ns_ : UINT64_MAX,
                   !folder_.empty() ? look_at_ns_ : UINT64_MAX,
                   serving_ != nullptr ? hash_at_ns_ : UINT64_MAX});
}

/// One more of the serving version, at the rate of loads: the next delta needs those of what it leaves.
void Endpoint::hash_leaf() {
  std::shared_ptr<const Origin> origin;
  uint64_t rate = 0;
  {
    const std::lock_guard<std::mutex> lock(state_mutex_);
    if (serving_ == nullptr || hash_at_ns_ > monotonic_ns()) return;
    origin = serving_->origin;
    rate = static_cast<uint64_t>(settings_.bytes_per_second);
  }
  const uint64_t bytes = origin->leaves->make_next();
  const std::lock_guard<std::mutex> lock(state_mutex_);
  if (serving_ == nullptr || serving_->origin != origin) return;
  const auto takes = rate == 0 ? 0.0 : static_cast<double>(bytes) / static_cast<double>(rate) * 1e9;
  hash_at_ns_ = bytes == 0 ? UINT64_MAX : monotonic_ns() + static_cast<uint64_t>(takes);
}

void Endpoint::expire() {
  std::unique_ptr<Version> old;
  {
    const std::lock_guard<std::mutex> lock(state_mutex_);
    if (kept_ == nullptr || kept_until_ns_ > monotonic_ns()) return;
    old = std::move(kept_);
  }
  retire(std::move(old));
  merge_rows();
}

void Endpoint::poll() {
  std::string folder;
  {
    const std::lock_guard<std::mutex> lock(state_mutex_);
    if (folder_.empty() || look_at_ns_ > monotonic_ns()) return;
    look_at_ns_ = monotonic_ns() + static_cast<uint64_t>(settings_.follow_ms) * kNsPerMs;
    folder = folder_;
  }
  auto found = list_updates(folder);
  note_folder(found.status());
  if (!found.ok()) return;
  {
    const std::lock_guard<std::mutex> lock(state_mutex_);
    std::map<std::string_view, const FoundUpdate*> here;
    for (const FoundUpdate& f : *found) here[f.path] = &f;
    std::erase_if(refused_, [&](const auto& r) {
      const auto f = here.find(r.first);
      return f == here.end() || !f->second->same_file(r.second.found);
    });
  }
  chooser_.look_at(std::move(found).value());
  note_passed(folder);
  std::vector<Refused> gaps;
  for (size_t i = 0; i < chooser_.found().size(); ++i) {
    const FoundUpdate& f = chooser_.found()[i];
    if (stopping() || !wants(folder, f)) continue;
    const std::optional<ContentHash> serving = serving_version();
    auto way = chooser_.way_to(i, serving ? &*serving : nullptr, f.is_delta ? usable() : std::vector<bool>());
    if (!way.ok() && way.status().code() == Code::kNotFound)
      break;  // what comes now is older than what serves
    if (!way.ok()) {
      gaps.push_back({f, way.status(), 1, 0});
      continue;
    }
    size_t fault = way->deltas.size();
    const Status status = load(*way, &fault);
    if (status.ok()) break;
    if (way->whole.empty() && serving_version() != serving)
      break;  // another load or a rollback came between: the next look finds the way from there
    note_refused(to_blame(f, *way, fault), status);
  }
  note_gaps(std::move(gaps));
}

std::optional<ContentHash> Endpoint::serving_version() const {
  const std::lock_guard<std::mutex> lock(state_mutex_);
  if (serving_ == nullptr) return {};
  return serving_->origin->bundle->version();
}

/// Files that a way may lead over: those that were not refused, or are to be tried again.
std::vector<bool> Endpoint::usable() const {
  const std::lock_guard<std::mutex> lock(state_mutex_);
  const uint64_t now = monotonic_ns();
  std::vector<bool> out;
  for (const FoundUpdate& f : chooser_.found()) {
    const auto r = refused_.find(f.path);
    out.push_back(r == refused_.end() || r->second.again_ns <= now);
  }
  return out;
}

/// The file whose fault it is that `update` was refused.
const FoundUpdate& Endpoint::to_blame(const FoundUpdate& target, const Update& update, size_t fault) const {
  if (fault >= update.deltas.size()) return target;
  const auto at = std::find_if(chooser_.found().begin(), chooser_.found().end(),
                               [&](const FoundUpdate& f) { return f.path == update.deltas[fault]; });
  return at != chooser_.found().end() ? *at : target;
}

/// Deltas that nothing leads to yet, as of this look. One that was not among those of the last look is told.
void Endpoint::note_gaps(std::vector<Refused> gaps) {
  std::vector<std::string> news;
  {
    const std::lock_guard<std::mutex> lock(state_mutex_);
    for (const Refused& g : gaps) {
      const auto known = [&](const Refused& r) { return r.found.path == g.found.path; };
      if (std::none_of(gaps_.begin(), gaps_.end(), known)) news.push_back(g.why.message());
    }
    gaps_.clear();
    if (!folder_.empty()) gaps_ = std::move(gaps);
  }
  for (const std::string& text : news) tell(LogLevel::kWarn, [&] { return "a delta is held back: " + text; });
}

/// Why a file with a number that no load goes to any more is in the folder; empty where that is as it should
/// be. Files are in the order of their numbers. With state_mutex_ held.
std::string Endpoint::why_passed(size_t i) const {
  const FoundUpdate& f = chooser_.found()[i];
  const std::string number = "version " + std::to_string(f.number);
  if (f.number > highest_ || (serving_ != nullptr && serving_->path == f.path)) return {};
  if (rolled_back_.contains(f.number))
    return number + " was rolled back; publish the next one under a higher number";
  for (const size_t other : {i - 1, i + 1}) {
    if (other >= chooser_.found().size()) continue;  // i - 1 of 0 too
    const FoundUpdate& o = chooser_.found()[other];
    if (o.number == f.number && o.is_delta == f.is_delta) return "another file is " + number + ": " + o.path;
  }
  if (serving_ != nullptr && serving_->number == f.number)
    return {};  // the bundle of its delta, or its delta
  const bool was_passed =
      std::any_of(passed_.begin(), passed_.end(), [&](const Passed& p) { return p.found.same_file(f); });
  if (!chooser_.is_new(i) && !was_passed) return {};  // it had its turn
  return number + " is not above " + std::to_string(highest_) + ", the highest that served";
}

/// Before this look loads anything.
void Endpoint::note_passed(const std::string& folder) {
  {
    const std::lock_guard<std::mutex> lock(state_mutex_);
    if (folder_ != folder) return;
    std::vector<Passed> passed;
    for (size_t i = 0; i < chooser_.found().size() && passed.size() < kMostPassed; ++i) {
      const FoundUpdate& f = chooser_.found()[i];
      std::string why = why_passed(i);
      if (why.empty()) continue;
      if (chooser_.is_new(i) && !is_first_look_)
        messages_.push_back({LogLevel::kWarn, f.path + " is not loaded: " + why});
      passed.push_back({f, std::move(why)});
    }
    passed_ = std::move(passed);
    is_first_look_ = false;
  }
  write_messages();
}

/// Above everything that ever served: a version that was rolled back does not come again. And not one that
/// was refused a moment ago.
bool Endpoint::wants(const std::string& folder, const FoundUpdate& found) const {
  const std::lock_guard<std::mutex> lock(state_mutex_);
  if (folder_ != folder || found.number <= highest_) return false;  // another folder by now
  const auto before = refused_.find(found.path);
  return before == refused_.end() || before->second.again_ns <= monotonic_ns();
}

void Endpoint::note_refused(const FoundUpdate& found, const Status& why) {
  const std::lock_guard<std::mutex> lock(state_mutex_);
  if (folder_.empty()) return;
  const auto [at, is_new] = refused_.try_emplace(found.path, Refused{found, why, 1, 0});
  Refused& r = at->second;
  if (!is_new) r = {found, why, r.tries + 1, 0};
  r.again_ns = is_files_fault(why.code()) ? UINT64_MAX : monotonic_ns() + pause_ns(r.tries, settings_);
}

/// Nobody else is told: the next look, after its pause, tells what it finds.
void Endpoint::note_out_of_memory() {
  const std::lock_guard<std::mutex> lock(state_mutex_);
  look_at_ns_ = monotonic_ns() + pause_ns(++folder_errors_, settings_);
}

void Endpoint::note_folder(const Status& status) {
  bool first = false;
  {
    const std::lock_guard<std::mutex> lock(state_mutex_);
    first = !status.ok() && folder_errors_ == 0;
    folder_errors_ = status.ok() ? 0 : folder_errors_ + 1;
    folder_status_ = status;
    if (!status.ok()) look_at_ns_ = monotonic_ns() + pause_ns(folder_errors_, settings_);
  }
  if (first) tell(LogLevel::kWarn, [&] { return "the followed folder cannot be read: " + status.message(); });
}

}  // namespace dpi
