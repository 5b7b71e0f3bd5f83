#include "runtime/record/recorder.hpp"

#include <pthread.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <new>
#include <system_error>
#include <utility>

#include "base/block_signals.hpp"
#include "base/clock.hpp"
#include "base/json_text.hpp"
#include "runtime/record/record_layout.hpp"

namespace dpi {

namespace {

constexpr auto kTick = std::chrono::milliseconds(20);
constexpr uint64_t kPauseNs = 1'000'000'000;  // after a failure
constexpr int64_t kLeastFileBytes = 65536, kMostFileBytes = int64_t{1} << 40;
constexpr uint64_t kEndBytes = sizeof(record_layout::FrameHead) + sizeof(record_layout::EndFrame);

Status bad_setting(std::string_view key, std::string_view value, const std::string& allowed) {
  return invalid_argument(std::string(key) + " of an endpoint is '" + std::string(value) + "', expected " +
                          allowed);
}

template <class T>
bool parse(std::string_view text, T least, T most, T* out) {
  T v{};
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (fault != std::errc() || end != text.data() + text.size() || !(v >= least && v <= most)) return false;
  *out = v;
  return true;
}

}  // namespace

const char* Recorder::name_of(size_t cause) {
  constexpr const char* kNames[kCauses] = {"full", "rate", "large", "failed"};
  return kNames[cause];
}

Status Recorder::set(std::string_view key, std::string_view value) {
  const std::lock_guard<std::mutex> one_at_a_time(set_mutex_);
  if (key == "record.path") return set_path(value == "off" ? std::string() : std::string(value));
  Settings next;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    next = settings_;
  }
  if (key == "record.share") {
    if (!parse(value, 0.0, 1.0, &next.share)) return bad_setting(key, value, "0 .. 1");
  } else if (key == "record.bytes") {
    if (!parse(value, kLeastFileBytes, kMostFileBytes, &next.bytes))
      return bad_setting(key, value,
                         std::to_string(kLeastFileBytes) + " .. " + std::to_string(kMostFileBytes));
  } else if (key == "record.bytes_per_second") {
    if (!parse(value, int64_t{0}, kMostFileBytes, &next.bytes_per_second))
      return bad_setting(key, value, "0 .. " + std::to_string(kMostFileBytes));
  } else {
    return {Code::kNotFound, "unknown key '" + std::string(key) +
                                 "' of an endpoint; known: record.path, record.share, record.bytes, "
                                 "record.bytes_per_second"};
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (key == "record.bytes_per_second") budget_.store(next.bytes_per_second, std::memory_order_relaxed);
    settings_ = std::move(next);
  }
  apply_share();
  return {};
}

/// With set_mutex_ held.
void Recorder::apply_share() {
  const std::lock_guard<std::mutex> lock(mutex_);
  limited_.store(settings_.bytes_per_second > 0, std::memory_order_relaxed);
  uint64_t threshold = 0;
  if (!settings_.path.empty() && settings_.share > 0)
    threshold = settings_.share >= 1 ? UINT64_MAX : static_cast<uint64_t>(std::ldexp(settings_.share, 64));
  threshold_.store(threshold, std::memory_order_release);
}

/// The first file is opened here: whoever sets the path hears what is wrong with it.
Status Recorder::set_path(const std::string& path) {
  stop();
  if (path.empty()) return {};
  if (owned_ring_ == nullptr) {
    owned_ring_ = std::make_unique<RecordBuffer>();
    ring_.store(owned_ring_.get(), std::memory_order_release);
  }
  DPI_ASSIGN_OR_RETURN(file_, RecordFile::create(path, files_ + 1));
  ++files_;
  while (RecordBuffer::Entry* const left = owned_ring_->front()) {  // drawn for the file before, and late
    if (left->is_kept()) drop(kFull);
    owned_ring_->pop(left);
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    settings_.path = path;
    status_ = {};
    stop_ = false;
    refilled_ns_ = again_ns_ = 0;
    budget_.store(settings_.bytes_per_second, std::memory_order_relaxed);
  }
  const BlockSignals blocked;
  try {
    thread_ = std::thread([this, begins_with = settings_] { work(begins_with); });
  } catch (const std::system_error& fault) {
    stop();
    return Status(Code::kOutOfMemory, std::string("the recorder's thread cannot be started: ") + fault.what())
        .native(fault.code().value());
  }
  apply_share();
  return {};
}

/// With set_mutex_ held.
void Recorder::stop() {
  threshold_.store(0, std::memory_order_release);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    settings_.path.clear();
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  if (file_ != nullptr) note(file_->finish(all_dropped()));
  file_.reset();
}

void Recorder::close() {
  const std::lock_guard<std::mutex> one_at_a_time(set_mutex_);
  stop();
}

std::unique_ptr<RecordTap> Recorder::tap(std::shared_ptr<RecordSource> source) {
  forget_sources();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    sources_.push_back(source);
  }
  return std::make_unique<RecordTap>(shared_from_this(), std::move(source));
}

// ---- the thread

void Recorder::work(Settings settings) {
  pthread_setname_np(pthread_self(), "dpi-record");
  for (bool last = false; !last;) {
    try {
      std::unique_lock<std::mutex> lock(mutex_);
      if (!stop_) wake_.wait_for(lock, kTick);
      last = stop_;
      if (!last) settings = settings_;
      lock.unlock();
      refill(settings, monotonic_ns());
      drain(settings);
      forget_sources();
    } catch (const std::bad_alloc&) {
      drop(kFailed);  // at most one record was lost on the way
    }
  }
}

/// A second's bytes at most are saved up.
void Recorder::refill(const Settings& settings, uint64_t now) {
  const auto rate = static_cast<double>(settings.bytes_per_second);
  const double passed = refilled_ns_ == 0 ? 0 : static_cast<double>(now - refilled_ns_) * 1e-9;
  const auto more = static_cast<int64_t>(rate * std::min(passed, 1.0));
  if (more == 0 && refilled_ns_ != 0) return;
  refilled_ns_ = now;
  const int64_t there = budget_.load(std::memory_order_relaxed);
  budget_.fetch_add(std::min(more, settings.bytes_per_second - there), std::memory_order_relaxed);
}

void Recorder::drain(const Settings& settings) {
  RecordBuffer& ring = *ring_.load(std::memory_order_acquire);
  struct Popped {
    RecordBuffer& ring;
    RecordBuffer::Entry* entry;
    ~Popped() { ring.pop(entry); }
  };
  while (RecordBuffer::Entry* const entry = ring.front()) {
    const Popped popped{ring, entry};
    if (entry->is_kept()) write(settings, entry);
  }
}

void Recorder::write(const Settings& settings, RecordBuffer::Entry* entry) {
  if (again_ns_ != 0 && monotonic_ns() < again_ns_) return drop(kFailed);
  RecordSource* const source = entry->source();
  if (RecordFile::least_bytes(*source, entry->bytes()) > static_cast<uint64_t>(settings.bytes))
    return drop(kLarge);
  Status status = make_room(settings, *source, entry->bytes());
  if (status.ok() && !fits(settings, *source, entry->bytes())) return drop(kLarge);
  const uint64_t before = status.ok() ? file_->bytes() : 0;
  if (status.ok()) status = file_->write(source, {entry->payload(), entry->bytes()});
  note(status);
  if (!status.ok()) return drop(kFailed);
  recorded_.fetch_add(1, std::memory_order_relaxed);
  written_.fetch_add(file_->bytes() - before, std::memory_order_relaxed);
}

bool Recorder::fits(const Settings& settings, const RecordSource& source, size_t payload) const {
  return file_->has_room_for_bundle() && file_->bytes() + file_->bytes_of(source, payload) + kEndBytes <=
                                             static_cast<uint64_t>(settings.bytes);
}

/// A file that the record does not fit into any more is ended, and the next one begun.
Status Recorder::make_room(const Settings& settings, const RecordSource& source, size_t payload) {
  if (file_ != nullptr && file_->requests() > 0 && !fits(settings, source, payload)) {
    DPI_RETURN_IF_ERROR(file_->finish(all_dropped()));
    file_.reset();
  }
  if (file_ != nullptr) return {};
  DPI_ASSIGN_OR_RETURN(file_, RecordFile::create(settings.path, files_ + 1));
  ++files_;
  return {};
}

/// After a failure nothing is tried for a while.
void Recorder::note(const Status& status) {
  bool is_news = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_news = !status.ok() && status_.ok();
    if (status.ok() == status_.ok() && status.ok()) return;
    status_ = status;
  }
  again_ns_ = status.ok() ? 0 : monotonic_ns() + kPauseNs;
  if (is_news) failed_(status);
}

/// A model that is gone has ended its calls: once the ring is empty, no record of it can come.
void Recorder::forget_sources() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<const RecordSource*> gone;
  for (const auto& s : sources_)
    if (s.use_count() == 1) {
      const std::shared_ptr<RecordSource> seen = s;  // its end acquires what the tap's released: see the ring
      gone.push_back(seen.get());
    }
  const RecordBuffer* const ring = ring_.load(std::memory_order_acquire);
  if (gone.empty() || (ring != nullptr && !ring->is_empty())) return;
  std::erase_if(sources_,
                [&](const auto& s) { return std::find(gone.begin(), gone.end(), s.get()) != gone.end(); });
}

// ---- what it tells

uint64_t Recorder::all_dropped() const {
  uint64_t n = 0;
  for (const auto& d : dropped_) n += d.load(std::memory_order_relaxed);
  return n;
}

Recorder::Counts Recorder::counts() const {
  Counts c;
  c.recorded = recorded_.load(std::memory_order_relaxed);
  c.bytes = written_.load(std::memory_order_relaxed);
  for (size_t i = 0; i < kCauses; ++i) c.dropped[i] = dropped_[i].load(std::memory_order_relaxed);
  return c;
}

void Recorder::describe(JsonWriter* w) const {
  const Counts c = counts();
  const std::lock_guard<std::mutex> lock(mutex_);
  w->begin_object("recording");
  w->field("path", settings_.path);
  w->field("share", settings_.share);
  w->field("recorded", c.recorded);
  w->field("bytes", c.bytes);
  w->begin_object("dropped");
  for (size_t i = 0; i < kCauses; ++i) w->field(name_of(i), c.dropped[i]);
  w->end_object();
  w->field("code", static_cast<int32_t>(status_.code()));
  w->field("error", status_.message());
  w->end_object();
}

}  // namespace dpi
