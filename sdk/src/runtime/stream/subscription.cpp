#include "runtime/stream/subscription.hpp"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <system_error>
#include <utility>

#include "base/block_signals.hpp"
#include "base/clock.hpp"
#include "base/float_env.hpp"

namespace dpi::stream {

namespace {

constexpr int32_t kNextMs = 500;                 // between two looks into the folder, while nothing comes
constexpr uint64_t kServeSliceNs = 250'000'000;  // the same, while the endpoint is waited for
constexpr int64_t kPauseMs = 250, kLongestPauseMs = 10000;

void forward_log(void* follower, int32_t level, const char* message) {
  static_cast<const Follower*>(follower)->tell(static_cast<LogLevel>(level),
                                               std::string("stream: ") + message);
}

Status told_by(int32_t code, const dpi_stream_error& err) {
  if (code == 0) return {};
  return Status(static_cast<Code>(code), err.message).native(err.native_code);
}

}  // namespace

Subscription::Subscription(const dpi_stream_api& api, SubscriptionOptions options,
                           std::unique_ptr<Follower> follower)
    : api_(api),
      options_(std::move(options)),
      follower_(std::move(follower)),
      handle_(nullptr, Close{&api}),
      joiner_(options_.url.max_bytes) {}

Result<std::unique_ptr<Subscription>> Subscription::start(const dpi_stream_api& api,
                                                          SubscriptionOptions options,
                                                          std::unique_ptr<Follower> follower) {
  std::unique_ptr<Subscription> made(new Subscription(api, std::move(options), std::move(follower)));
  const BlockSignals blocked;  // of the client's threads too
  DPI_RETURN_IF_ERROR(made->open());
  try {
    made->thread_ = std::thread([self = made.get()] { self->work(); });
  } catch (const std::system_error& fault) {
    return Status(Code::kOutOfMemory, std::string("the stream's thread cannot be started: ") + fault.what())
        .native(fault.code().value());
  }
  return made;
}

Status Subscription::open() {
  DPI_ASSIGN_OR_RETURN(spool_, Spool::open(options_.folder));
  dpi_stream_options o{};
  o.struct_size = sizeof o;
  o.partition = options_.url.partition;
  o.address = options_.url.address.c_str();
  o.topic = options_.url.topic.c_str();
  o.group = options_.url.group.c_str();
  o.properties = options_.url.properties.c_str();
  o.max_bytes = options_.url.max_bytes;
  o.log = forward_log;
  o.log_sink = follower_.get();
  dpi_stream_handle* handle = nullptr;
  dpi_stream_error err{};
  const int32_t code = api_.open(&o, &handle, &err);
  if (code != 0) return told_by(code, err).within(options_.url.place());
  handle_.reset(handle);
  return {};
}

Subscription::~Subscription() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_.store(true, std::memory_order_release);
    stopped_.notify_all();
  }
  if (handle_ != nullptr) api_.wake(handle_.get());
  if (thread_.joinable()) thread_.join();
}

void Subscription::work() {
  pthread_setname_np(pthread_self(), "dpi-stream");
  const FloatEnvironment standard;  // a thread begins with its starter's
  while (!stopping()) {
    try {
      round();
    } catch (const std::bad_alloc&) {
      pause(kPauseMs);  // what was read is judged again
    }
  }
}

void Subscription::round() {
  const Status listed = spool_->refresh();
  if (!listed.ok()) return trouble(listed);
  const auto chain = spool_->chain([&](const SpoolFile& f) { return !follower_->refusal(f.path).ok(); });
  look_round(chain);
  if (!settled(chain)) return;
  if (!settle(chain)) return;
  if (incoming_.has_value()) return judge(chain);
  const Status fetched = fetch();  // judged in the next round: a bundle may have come while it was waited for
  if (!fetched.ok()) trouble(fetched);
}

/// True if the end of the folder serves; only then it is known what the next delta may start from.
bool Subscription::settled(const std::vector<const SpoolFile*>& chain) {
  if (chain.empty()) {
    say("no_bundle");
    pause(kPauseMs);
    return false;
  }
  const SpoolFile& tail = *chain.back();
  if (follower_->serving() >= tail.number) return true;
  const Status refusal = follower_->refusal(tail.path);
  if (pending_.has_value() && !refusal.ok()) pending_->refusal = refusal;
  say(refusal.ok() ? "waiting" : "refused", refusal, tail.number);
  follower_->wait(tail.number, monotonic_ns() + kServeSliceNs);
  return false;
}

/// The end of the folder serves: what was waited for is done, and what a bundle has overtaken can go. False:
/// files went, so that `chain` is no more.
bool Subscription::settle(const std::vector<const SpoolFile*>& chain) {
  if (pending_.has_value()) {
    const Pending p = *std::exchange(pending_, std::nullopt);
    const bool serves =
        std::any_of(chain.begin(), chain.end(), [&](const SpoolFile* f) { return f->version == p.version; });
    if (serves)
      done_below(p.next_offset);
    else
      hold(p.offset, p.timestamp_ms, "overtaken by a bundle: " + p.refusal.message());
    const std::lock_guard<std::mutex> lock(mutex_);
    seen_.applied += serves ? 1 : 0;
  }
  const ContentHash& end = chain.back()->version;
  if (gap_.has_value() && gap_->told && searched_for_ != end) search(end);
  const int64_t removed = spool_->drop_below(*chain.front());
  const std::lock_guard<std::mutex> lock(mutex_);
  seen_.removed += removed;
  return removed == 0;
}

Status Subscription::fetch() {
  dpi_stream_message m{};
  dpi_stream_error err{};
  say(gap_.has_value() ? (gap_->told ? "gap" : "searching") : "reading");
  const int32_t code = api_.next(handle_.get(), kNextMs, &m, &err);
  if (code != 0) return told_by(code, err);
  errors_ = 0;
  if (m.kind == DPI_STREAM_END) at_end(m.offset);
  if (m.kind != DPI_STREAM_MESSAGE) return {};
  Incoming delta;
  bool whole = false;
  const int64_t begun = joiner_.begun_at();
  const Status taken = joiner_.take(m, &delta, &whole);
  if (begun >= 0 && (!taken.ok() || m.part == 0))
    hold(begun, m.timestamp_ms, "a delta in parts that are not all there");
  if (!taken.ok()) {
    if (taken.code() == Code::kUnsupported)
      hold(m.offset, m.timestamp_ms, taken.message());
    else
      skip(m.offset, taken);
  }
  if (taken.ok() && whole) incoming_ = delta;
  return {};
}

/// Every message has been read. What cannot be applied now waits from here on, and says so.
void Subscription::at_end(int64_t offset) {
  if (gap_.has_value()) {
    if (gap_->told) return;
    gap_->told = true;
    follower_->tell(LogLevel::kWarn, "stream: a gap at offset " + std::to_string(gap_->offset) + " of " +
                                         options_.url.place() + ": " + gap_->why);
    return;
  }
  if (pending_.has_value() || joiner_.begun_at() >= 0) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  seen_.next_offset = std::max(seen_.next_offset, offset);
}

/// Reads the stream from its oldest message on, for a delta that starts from `base`.
void Subscription::search(const ContentHash& base) {
  dpi_stream_error err{};
  incoming_.reset();
  joiner_.forget();
  gap_->told = false;
  gap_->messages = 0;  // they come again
  const int32_t code = api_.rewind(handle_.get(), &err);
  if (code != 0) return trouble(told_by(code, err));
  searched_for_ = base;
}

/// Updates those fields of the status that only this thread can compute.
void Subscription::look_round(const std::vector<const SpoolFile*>& chain) {
  const uint64_t serving = follower_->serving();
  const std::lock_guard<std::mutex> lock(mutex_);
  seen_.versions_behind = 0;
  for (const SpoolFile* f : chain) seen_.versions_behind += f->number > serving ? 1 : 0;
  seen_.served_ms = -1;
  for (const SpoolFile& f : spool_->files())
    if (f.number == serving) seen_.served_ms = f.changed_ms;
  seen_.gap = gap_;
  seen_.oldest_ms = gap_.has_value()       ? gap_->timestamp_ms
                    : pending_.has_value() ? pending_->timestamp_ms
                                           : -1;
}

void Subscription::say(const char* state, const Status& error, uint64_t waits_for) {
  const std::lock_guard<std::mutex> lock(mutex_);
  seen_.state = state;
  seen_.error = error;
  seen_.waits_for = waits_for;
  seen_.gap = gap_;
}

/// Told, and tried again after a pause that doubles.
void Subscription::trouble(const Status& why) {
  if (errors_ == 0) follower_->tell(LogLevel::kWarn, "stream: " + why.message());
  say("error", why);
  const int64_t doubled = kPauseMs << std::min<int64_t>(errors_, 6);
  ++errors_;
  pause(std::min(doubled, kLongestPauseMs));
}

void Subscription::pause(int64_t ms) {
  std::unique_lock<std::mutex> lock(mutex_);
  stopped_.wait_for(lock, std::chrono::milliseconds(ms), [this] { return stopping(); });
}

}  // namespace dpi::stream
