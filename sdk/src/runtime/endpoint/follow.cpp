// The endpoint's own thread: frees the version that was kept for a rollback when its time is over, hashes
// what serves (bundle/leaf_hashes.hpp), and looks into the followed folder. A file that cannot be loaded
// holds nothing up: the next lower number that is above what served gets its turn, and the file is tried
// again when it may go better: when it is replaced, or after a pause that doubles, unless the file itself was
// at fault.
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <optional>
#include <utility>

#include "base/clock.hpp"
#include "base/float_env.hpp"
#include "runtime/endpoint/endpoint.hpp"

namespace dpi {

namespace {

constexpr size_t kMostPassed = 32;  // files listed as not taken: those of the highest numbers

}  // namespace

Status Endpoint::follow(const std::string& folder) {
  DPI_RETURN_IF_ERROR(check_process());
  if (in_callback())
    return invalid_argument("endpoint '" + name_ + "': follow was called inside a callback of this endpoint");
  unsubscribe();
  return follow_folder(folder);
}

Status Endpoint::follow_folder(const std::string& folder) {
  if (folder.empty()) return invalid_argument("the folder's name is empty");
  const std::lock_guard<std::mutex> lock(state_mutex_);
  folder_.follow(folder);
  changed_.notify_all();
  return {};
}

void Endpoint::unfollow() {
  if (forked() || in_callback()) return;
  unsubscribe();
  const std::lock_guard<std::mutex> lock(state_mutex_);
  folder_.follow("");
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
    if (std::exchange(recording_fails_, false)) {  // other messages are written by who made them
      lock.unlock();
      write_messages();
      lock.lock();
      continue;
    }
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
  return std::min({kept_ != nullptr ? kept_until_ns_ : UINT64_MAX, folder_.due_ns(),
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
    if (folder_.due_ns() > monotonic_ns()) return;
    folder_.begin_look(settings_);
    folder = folder_.path();
  }
  auto found = list_updates(folder);
  note_folder(found.status());
  if (!found.ok()) return;
  {
    const std::lock_guard<std::mutex> lock(state_mutex_);
    folder_.keep_refusals_of(*found);
  }
  chooser_.look_at(std::move(found).value());
  note_passed(folder);
  std::vector<FollowedFolder::Refused> gaps;
  for (size_t i = 0; i < chooser_.found().size(); ++i) {
    const FoundUpdate& f = chooser_.found()[i];
    if (stopping() || !wants(folder, f)) continue;
    const std::optional<ContentHash> serving = serving_content();
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
    if (way->whole.empty() && serving_content() != serving)
      break;  // another load or a rollback came between: the next look finds the way from there
    note_refused(*to_blame(&f, *way, fault), status);
  }
  note_gaps(std::move(gaps));
}

std::optional<ContentHash> Endpoint::serving_content() const {
  const std::lock_guard<std::mutex> lock(state_mutex_);
  if (serving_ == nullptr) return {};
  return serving_->origin->bundle->content_hash();
}

/// Files that a way may lead over: those that were not refused, or are to be tried again.
std::vector<bool> Endpoint::usable() const {
  const std::lock_guard<std::mutex> lock(state_mutex_);
  std::vector<bool> out;
  for (const FoundUpdate& f : chooser_.found()) out.push_back(folder_.may_try(f));
  return out;
}

/// The file whose fault it is that `update` was refused.
const FoundUpdate* Endpoint::to_blame(const FoundUpdate* target, const Update& update, size_t fault) const {
  if (fault >= update.deltas.size()) return target;
  const auto at = std::find_if(chooser_.found().begin(), chooser_.found().end(),
                               [&](const FoundUpdate& f) { return f.path == update.deltas[fault]; });
  return at != chooser_.found().end() ? &*at : target;
}

/// Deltas that nothing leads to yet, as of this look. One that the last look did not have is logged.
void Endpoint::note_gaps(std::vector<FollowedFolder::Refused> gaps) {
  std::vector<std::string> news;
  {
    const std::lock_guard<std::mutex> lock(state_mutex_);
    news = folder_.note_gaps(std::move(gaps));
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
    return {};                                                   // the bundle of its delta, or its delta
  if (!chooser_.is_new(i) && !folder_.was_passed(f)) return {};  // it had its turn
  return number + " is not above " + std::to_string(highest_) + ", the highest that served";
}

/// Before this look loads anything.
void Endpoint::note_passed(const std::string& folder) {
  {
    const std::lock_guard<std::mutex> lock(state_mutex_);
    if (folder_.path() != folder) return;
    std::vector<FollowedFolder::Passed> passed;
    for (size_t i = 0; i < chooser_.found().size() && passed.size() < kMostPassed; ++i) {
      const FoundUpdate& f = chooser_.found()[i];
      std::string why = why_passed(i);
      if (why.empty()) continue;
      if (chooser_.is_new(i) && !folder_.is_first_look())
        messages_.push_back({LogLevel::kWarn, f.path + " is not loaded: " + why});
      passed.push_back({f, std::move(why)});
    }
    folder_.note_passed(std::move(passed));
  }
  write_messages();
}

/// Above everything that ever served: a version that was rolled back does not come again. And not one that
/// was refused a moment ago.
bool Endpoint::wants(const std::string& folder, const FoundUpdate& found) const {
  const std::lock_guard<std::mutex> lock(state_mutex_);
  return folder_.path() == folder && found.number > highest_ && folder_.may_try(found);
}

void Endpoint::note_refused(const FoundUpdate& found, const Status& why) {
  const std::lock_guard<std::mutex> lock(state_mutex_);
  folder_.note_refused(found, why, settings_);
}

/// Logs nothing: the next look, after its pause, logs what it finds.
void Endpoint::note_out_of_memory() {
  const std::lock_guard<std::mutex> lock(state_mutex_);
  folder_.put_off(settings_);
}

void Endpoint::note_folder(const Status& status) {
  bool first = false, again = false;
  {
    const std::lock_guard<std::mutex> lock(state_mutex_);
    again = status.ok() && folder_.is_unreadable();
    first = folder_.note_status(status, settings_);
  }
  if (again) tell(LogLevel::kInfo, [] { return std::string("the followed folder can be read again"); });
  if (first) tell(LogLevel::kWarn, [&] { return "the followed folder cannot be read: " + status.message(); });
}

}  // namespace dpi
