#include "runtime/batch/batcher.hpp"

#include <poll.h>
#include <pthread.h>

#include <algorithm>
#include <system_error>

#include "base/block_signals.hpp"
#include "base/float_env.hpp"
#include "base/json_text.hpp"

namespace dpi {

thread_local const Batcher* Batcher::calling_ = nullptr;

namespace {

/// Ends of batchers and of versions are rare: they look instead of being told by every call.
void look_again() { std::this_thread::sleep_for(std::chrono::microseconds(50)); }

}  // namespace

Status Batcher::Visit::status() const {
  return open_ ? Status() : Status(Code::kClosed, "the batcher is closed");
}

Result<std::unique_ptr<Batcher>> Batcher::create(const BatchSettings& settings) {
  std::unique_ptr<Batcher> b(new Batcher(settings));
  DPI_RETURN_IF_ERROR(b->shared_.tickets.open());
  DPI_RETURN_IF_ERROR(b->start_threads());
  return b;
}

Status Batcher::start_threads() {
  const BlockSignals blocked;
  threads_.reserve(static_cast<size_t>(shared_.settings.threads));
  try {
    for (int64_t i = 0; i < shared_.settings.threads; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error& fault) {
    return Status(Code::kOutOfMemory,
                  std::string("a thread of the batcher cannot be started: ") + fault.what())
        .native(fault.code().value());
  }
  return {};
}

Batcher::~Batcher() {
  static_cast<void>(close(1));
  for (;;) {
    const std::lock_guard<std::mutex> lock(shared_.lanes_mutex);
    if (std::all_of(shared_.lanes.begin(), shared_.lanes.end(), [](const Lane* l) { return l->idle(); }))
      break;
    look_again();
  }
  stop_.store(true, std::memory_order_seq_cst);
  shared_.work.add(1);
  for (std::thread& t : threads_) t.join();
  drop_lanes();
}

/// A model that closes at the same time frees its lane itself.
void Batcher::drop_lanes() {
  for (;;) {
    {
      const std::lock_guard<std::mutex> lock(shared_.lanes_mutex);
      shared_.lanes.remove_if([&](Lane* lane) {
        if (!lane->detach_from(this)) return false;
        delete lane;
        return true;
      });
      if (shared_.lanes.empty()) return;
    }
    look_again();
  }
}

Result<Lane*> Batcher::lane_of(Model& model) {
  if (Model::Attachment* there = model.attached(this); there != nullptr) return static_cast<Lane*>(there);
  const std::lock_guard<std::mutex> lock(shared_.lanes_mutex);
  if (Model::Attachment* there = model.attached(this); there != nullptr) return static_cast<Lane*>(there);
  DPI_ASSIGN_OR_RETURN(std::unique_ptr<Lane> lane, Lane::create(shared_, model));
  shared_.lanes.push_back(lane.get());
  if (!model.attach(this, lane.get())) {
    shared_.lanes.pop_back();
    return unsupported("a model has at most " + std::to_string(Model::kAttachments) + " batchers");
  }
  return lane.release();
}

bool Batcher::cancel(uint64_t ticket) {
  if (!shared_.tickets.cancel(ticket, Status(Code::kCancelled, "cancelled by its ticket"))) return false;
  shared_.work.add(1);
  return true;
}

Status Batcher::wait_done(uint64_t until_ns) {
  for (;;) {
    if (shared_.tickets.any_done()) return {};
    const bool closing = inside_.load(std::memory_order_seq_cst) >= kClosing;
    if (closing && all_ended() && shared_.tickets.taken() == shared_.tickets.submitted())
      return {Code::kClosed, "the batcher is closed, and every completion was taken"};
    shared_.tickets.clear_descriptor();
    if (shared_.tickets.any_done()) continue;
    const uint64_t now = monotonic_ns();
    if (now >= until_ns) return {};
    constexpr uint64_t kLongestNs = 10'000'000;  // of one sleep, for who closes meanwhile
    const uint64_t wait = std::min(until_ns - now, closing ? kLongestNs / 10 : kLongestNs);
    const timespec time{0, static_cast<long>(wait)};
    pollfd fd{shared_.tickets.descriptor(), POLLIN, 0};
    ppoll(&fd, 1, &time, nullptr);
  }
}

Status Batcher::set_callback(Callback callback) {
  const std::lock_guard<std::mutex> lock(callback_mutex_);
  if (has_callback() || shared_.tickets.submitted() > 0)
    return invalid_argument("a callback is set once, and before anything is submitted");
  callback_ = std::move(callback);
  has_callback_.store(true, std::memory_order_release);
  return {};
}

// ---- threads

void Batcher::work() {
  pthread_setname_np(pthread_self(), "dpi-batch");
  const FloatEnvironment standard;  // a thread begins with its starter's
  for (;;) {
    const uint32_t seen = shared_.work.get();
    if (work_once()) continue;
    if (stop_.load(std::memory_order_seq_cst)) return;
    shared_.work.sleep(seen, 0);
  }
}

bool Batcher::work_once() {
  bool any = call_back();
  uint64_t item = 0;
  if (shared_.leads.pop(&item)) {
    any = true;
    // The address of a lane, with numbers in its low bits. NOLINTNEXTLINE(performance-no-int-to-ptr)
    auto* const lane = reinterpret_cast<Lane*>(item & ~(BatchShared::kLaneAlign - 1));
    const auto chunk = static_cast<uint32_t>(item & (BatchShared::kSingles - 1));
    if ((item & BatchShared::kSingles) != 0)
      lane->run_singles(chunk);
    else
      lane->lead_left(chunk);
  }
  return any;
}

bool Batcher::call_back() {
  if (!has_callback()) return false;
  bool any = false;
  while (Ticket* const t = shared_.tickets.next_done()) {
    calling_ = this;
    callback_(*t);
    calling_ = nullptr;
    shared_.tickets.release(t);
    any = true;
  }
  return any;
}

// ---- the end

bool Batcher::all_ended() const {
  const Tickets& t = shared_.tickets;
  const uint64_t completed = t.completed();
  return inside_.load(std::memory_order_seq_cst) == kClosing && completed == t.submitted() &&
         (!has_callback() || t.taken() == completed);
}

void Batcher::cancel_waiting() {
  __atomic_store_n(&shared_.abort, 1, __ATOMIC_SEQ_CST);
  shared_.tickets.cancel_all(Status(Code::kCancelled, "closed"));
  shared_.work.add(1);
  const std::lock_guard<std::mutex> lock(shared_.lanes_mutex);
  for (Lane* lane : shared_.lanes) lane->wake_all();
}

Status Batcher::close(uint64_t deadline_ns) {
  if (in_callback()) return invalid_argument("dpi_batcher_close in the batcher's own callback");
  inside_.fetch_or(kClosing, std::memory_order_seq_cst);
  bool cancelled = false;
  while (!all_ended()) {
    if (deadline_ns != 0 && monotonic_ns() >= deadline_ns) {
      cancel_waiting();
      cancelled = true;
    }
    look_again();
  }
  shared_.tickets.end_descriptor();
  if (!cancelled) return {};
  return {Code::kTimeout, "the deadline passed: what still waited was cancelled"};
}

std::string Batcher::status_json() {
  const auto get = [](const std::atomic<uint64_t>& n) { return n.load(std::memory_order_relaxed); };
  const BatchSettings& s = shared_.settings;
  int64_t rows = s.max_rows, running = s.running;
  uint64_t bytes = shared_.tickets.bytes();
  {
    const std::lock_guard<std::mutex> lock(shared_.lanes_mutex);
    for (const Lane* lane : shared_.lanes) bytes += lane->bytes();
    if (!shared_.lanes.empty()) {
      rows = shared_.lanes.back()->max_rows();
      running = shared_.lanes.back()->running();
    }
  }
  const uint64_t merged = get(shared_.chunk_requests), calls = get(calls_);
  const Tickets& t = shared_.tickets;
  const uint64_t taken = t.taken(), completed = std::max(t.completed(), taken);  // counted last of all
  JsonWriter w;
  w.begin_object();
  w.field("closed", inside_.load(std::memory_order_seq_cst) >= kClosing);
  w.field("callback", has_callback());
  w.field("max_rows", rows);
  w.field("max_delay_us", s.max_delay_us);
  w.field("running", running);
  w.field("queue", s.queue);
  w.field("threads", s.threads);
  w.field("memory_bytes", bytes);
  w.field("calls", calls);
  w.field("chunks", get(shared_.chunks));
  w.field("chunk_requests", merged);
  w.field("chunk_rows", get(shared_.chunk_rows));
  w.field("largest_chunk", get(shared_.largest_chunk));
  w.field("again", get(shared_.again));
  w.field("full", get(shared_.full));
  w.field("late", get(shared_.late));
  w.field("submitted", t.submitted());
  w.field("completed", completed);
  w.field("cancelled", t.cancelled());
  w.field("waiting", completed - taken);
  w.field("service_ns", shared_.expected_ns(monotonic_ns()));
  w.end_object();
  return w.take();
}

}  // namespace dpi
