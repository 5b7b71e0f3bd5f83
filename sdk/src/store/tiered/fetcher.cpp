#include "store/tiered/fetcher.hpp"

#include <pthread.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <exception>
#include <system_error>
#include <utility>

#include "base/block_signals.hpp"
#include "base/clock.hpp"
#include "base/float_env.hpp"

namespace dpi::tiered {

namespace {

constexpr uint64_t kLookForCallers = 1'000'000;  // ns in the queue, before which nobody is taken to have gone

constexpr size_t kAtEase = 128;  // rows under way; half of the reads that a disk's queue commonly takes

}  // namespace

Fetcher::Fetcher(const Options& options, RowSource* source, std::vector<Row> rows, FinishRow finish,
                 StoreHealth* health, std::function<void()> idle, uint64_t idle_ns)
    : options_(options),
      source_(source),
      rows_(std::move(rows)),
      finish_(finish),
      health_(health),
      idle_(std::move(idle)),
      idle_ns_(idle_ns) {
  int64_t longest = 0;
  for (const Row& row : rows_) longest = std::max(longest, row.source_bytes);
  probe_row_.resize(static_cast<size_t>(longest));
  const auto most = static_cast<size_t>(std::max(1, options_.job_rows));
  for (int32_t i = 0; i < std::max(1, options_.jobs); ++i) {
    auto job = std::make_unique<FetchJob>();
    job->keys.resize(most);
    job->rows.resize(most);
    job->shards.resize(most);
    job->fetches.resize(most);
    job->found.resize((most + 63) / 64);
    job->failed.resize(job->found.size());
    job->next = std::exchange(spare_, job.get());
    all_.push_back(std::move(job));
  }
}

uint64_t Fetcher::bytes(const Options& options) {
  const auto rows = static_cast<uint64_t>(std::max(1, options.job_rows));
  const uint64_t row = sizeof(int64_t) + sizeof(std::byte*) + sizeof(Shard*) + sizeof(int32_t);
  return static_cast<uint64_t>(std::max(1, options.jobs)) *
         (sizeof(FetchJob) + rows * row + 2 * ((rows + 63) / 64) * sizeof(uint64_t));
}

uint64_t Fetcher::job_bytes() const {
  uint64_t n = 0;
  for (const auto& job : all_)
    n += sizeof *job + job->keys.capacity() * sizeof(int64_t) + job->rows.capacity() * sizeof(std::byte*) +
         job->shards.capacity() * sizeof(Shard*) + job->fetches.capacity() * sizeof(int32_t) +
         job->found.capacity() * sizeof(uint64_t);
  return n;
}

Status Fetcher::start() {
  const BlockSignals blocked;
  const int32_t wanted = std::max(1, options_.threads);
  try {
    while (static_cast<int32_t>(threads_.size()) < wanted)
      threads_.emplace_back([this, first = threads_.empty()] { work(first); });
  } catch (const std::system_error& e) {
    return Status(Code::kOutOfMemory, "fetch thread " + std::to_string(threads_.size() + 1) + " of " +
                                          std::to_string(wanted) + " cannot be started: " + e.what())
        .native(e.code().value());
  }
  return {};
}

/// No caller may be waiting.
Fetcher::~Fetcher() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  queued_.notify_all();
  for (std::thread& t : threads_) t.join();
}

FetchJob* Fetcher::take_job(int32_t table, const std::shared_ptr<FetchCounts>& counts) {
  const uint64_t bytes = static_cast<uint64_t>(rows_[static_cast<size_t>(table)].stride) *
                         static_cast<uint64_t>(std::max(1, options_.job_rows));
  std::unique_lock<std::mutex> lock(mutex_);
  if (!has_room(bytes)) {
    const bool over = first_ != nullptr && why_over(*first_, monotonic_ns()) != nullptr;
    if (!over) return nullptr;
    FetchJob* const gone = unqueue(first_);
    lock.unlock();
    drop(gone);
    lock.lock();
    if (!has_room(bytes)) return nullptr;
  }
  FetchJob* job = spare_;
  spare_ = job->next;
  job->table = table;
  job->n = 0;
  job->bytes = bytes;
  job->counts = counts;
  job->at_ease = under_way_ < kAtEase;
  bytes_ += bytes;
  return job;
}

/// One job may always be under way, however small the bound.
bool Fetcher::has_room(uint64_t bytes) const {
  return spare_ != nullptr && (bytes_ == 0 || bytes_ + bytes <= options_.bytes_in_flight);
}

void Fetcher::queue(FetchJob* job) {
  job->stage = FetchJob::Stage::kQueued;
  job->next = nullptr;
  job->before = std::exchange(last_, job);
  (job->before != nullptr ? job->before->next : first_) = job;
  under_way_ += job->n;
}

FetchJob* Fetcher::unqueue(FetchJob* job) {
  (job->before != nullptr ? job->before->next : first_) = job->next;
  (job->next != nullptr ? job->next->before : last_) = job->before;
  job->next = job->before = nullptr;
  job->stage = FetchJob::Stage::kRunning;
  return job;
}

/// Why a queued job is not run any more; null = it is.
std::shared_ptr<const Status> Fetcher::why_over(const FetchJob& job, uint64_t now) const {
  if (now >= job.deadline_ns) return expired_;
  if (health_->decides(store_of(job))) {
    size_t refused = 0;
    while (refused < job.n && refusal(job, refused) != nullptr) ++refused;
    if (refused == job.n) return expired_;
  }
  if (!job.waited || now - job.queued_ns < kLookForCallers) return nullptr;
  for (size_t i = 0; i < job.n; ++i) {
    if (job.shards[i]->is_wanted(job.fetches[i])) return nullptr;
  }
  return expired_;
}

/// The job to run, or null. Those that leave the queue unrun are chained at `over`.
FetchJob* Fetcher::next_job(FetchJob** over) {
  const uint64_t now = monotonic_ns();
  const auto late = [now](const FetchJob& job) {
    return job.waited && now < job.callers_until &&
           4 * (now - job.queued_ns) > job.callers_until - job.queued_ns;
  };
  while (first_ != nullptr) {
    FetchJob* const job = unqueue(late(*first_) ? last_ : first_);
    if (why_over(*job, now) == nullptr) return job;
    job->next = std::exchange(*over, job);
  }
  return nullptr;
}

/// Ends the fetches of a job that left the queue unrun. Who joined them meanwhile asks again.
void Fetcher::drop(FetchJob* job) {
  const size_t rows = job->n;
  leave_out_refused(job);
  std::fill(job->failed.begin(), job->failed.end(), ~uint64_t{0});
  publish(job, expired_);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    (*job->counts)[static_cast<size_t>(job->table)].expired += rows;
    finish(job, rows);
  }
  done_.notify_all();
}

/// rows: as many as it had when it was queued. Under the lock.
void Fetcher::finish(FetchJob* job, size_t rows) {
  under_way_ -= rows;
  recycle(job);
  finished_.store(finished_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

/// Probes a store that is down for one row, when that is due.
void Fetcher::ask_again(int32_t store) {
  const auto row = health_->take_probe(store, monotonic_ns());
  if (!row) return;
  std::byte* to = probe_row_.data();
  uint64_t found = 0;
  Status answer;
  try {
    answer = source_->fetch({row->table, {&row->key, 1}, &to, &found, monotonic_ns() + options_.fetch_ns});
  } catch (const std::exception&) {
    answer = *no_memory_;
  }
  health_->probed(store, row->route, answer, monotonic_ns());
}

void Fetcher::recycle(FetchJob* job) {
  job->stage = FetchJob::Stage::kTaken;
  bytes_ -= job->bytes;
  job->counts.reset();
  job->next = std::exchange(spare_, job);
}

void Fetcher::submit(FetchJob* job, uint64_t deadline_ns, bool here) {
  const uint64_t begin = monotonic_ns();
  const uint64_t found = here && job->at_ease && job->n > 0 ? fetch_ready(job, deadline_ns) : 0;
  const uint64_t now = found > 0 ? monotonic_ns() : begin;
  const bool queued = job->n > 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (found > 0) {
      FetchCount& c = (*job->counts)[static_cast<size_t>(job->table)];
      c.latency.add(now - begin);
      c.fetched += found;
      c.bytes += found * static_cast<uint64_t>(rows_[static_cast<size_t>(job->table)].source_bytes);
      finished_.store(finished_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    }
    if (queued) {
      job->deadline_ns = std::max(deadline_ns, now + options_.fetch_ns);
      job->queued_ns = now;
      job->callers_until = deadline_ns;
      job->waited = here;
      this->queue(job);
    } else {
      recycle(job);
    }
  }
  if (queued) queued_.notify_one();
  if (found > 0) done_.notify_all();  // others may have joined its fetches
}

bool Fetcher::wait(uint64_t seen, uint64_t deadline_ns) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto more = [&] { return finished() != seen; };
  if (deadline_ns == 0) return done_.wait(lock, more), true;
  return done_.wait_until(lock, steady_time(deadline_ns), more);
}

void Fetcher::work(bool first) {
  pthread_setname_np(pthread_self(), "dpi-fetch");
  const FloatEnvironment standard;  // a thread begins with its starter's
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_) {
    const auto ready = [this] { return stop_ || first_ != nullptr; };
    if (first && idle_ns_ > 0)
      queued_.wait_for(lock, std::chrono::nanoseconds(idle_ns_), ready);
    else
      queued_.wait(lock, ready);
    FetchJob* over = nullptr;
    FetchJob* const job = stop_ ? nullptr : next_job(&over);
    const int32_t may_ask = first && !stop_ ? health_->count() : 0;
    lock.unlock();
    while (over != nullptr) {
      FetchJob* const gone = over;
      over = gone->next;
      drop(gone);
    }
    if (job != nullptr) run(job);
    if (first) idle_();  // which tells of a store that went down, before it can be up again
    for (int32_t s = 0; s < may_ask; ++s) ask_again(s);
    lock.lock();
  }
}

Fetcher::TableStats Fetcher::stats(const FetchCounts& counts, int32_t table) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const FetchCount& c = counts[static_cast<size_t>(table)];
  return {c.fetched,
          c.absent,
          c.failed,
          c.expired,
          c.bytes,
          c.reads,
          c.read_ns,
          c.latency.quantile(0.5),
          c.latency.quantile(0.99)};
}

Fetcher::QueueStats Fetcher::queue(int32_t store) const {
  const uint64_t now = monotonic_ns();
  QueueStats q;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& job : all_) {
    if (job->stage == FetchJob::Stage::kTaken || rows_[static_cast<size_t>(job->table)].store != store)
      continue;
    ++(job->stage == FetchJob::Stage::kQueued ? q.queued : q.running);
    q.oldest_ns = std::max(q.oldest_ns, now - std::min(now, job->queued_ns));
  }
  return q;
}

}  // namespace dpi::tiered
