#include "runtime/execute/call_shares.hpp"

#include <algorithm>
#include <limits>
#include <new>

#include "base/clock.hpp"
#include "base/thread_pool.hpp"
#include "runtime/engine/host_flights.hpp"

namespace dpi {

namespace {

std::vector<const std::vector<std::byte*>*> scratch_of(const std::vector<std::unique_ptr<Flight>>& flights) {
  std::vector<const std::vector<std::byte*>*> scratch;
  scratch.reserve(flights.size());
  for (const auto& f : flights) scratch.push_back(&f->scratch());
  return scratch;
}

}  // namespace

Status check_control(const RunControl& control) {
  if (control.cancel != nullptr && __atomic_load_n(control.cancel, __ATOMIC_ACQUIRE) != 0) {
    return {Code::kCancelled, "cancelled by the caller"};
  }
  if (control.deadline_ns != 0 && monotonic_ns() >= control.deadline_ns) {
    return {Code::kTimeout, "the deadline passed"};
  }
  return {};
}

struct CallShares::Job {
  CallShares& shares;
  const Batch& batch;
  float* out;
  const RunControl& control;
  int32_t count;                      // of shares
  std::atomic<int32_t> first_failed;  // shares behind it stop at their next chunk
  int64_t begin, end;                 // rows that are shared out now
  Crew* crew = nullptr;

  int64_t share_begin(int32_t share) const {
    return share == count ? end : begin + (end - begin) * share / count / kTileRows * kTileRows;
  }
};

CallShares::CallShares(const Engine& engine, const FlightSizes& sizes, const HostFlights& threads,
                       const std::vector<std::unique_ptr<Flight>>& flights)
    : engine_(engine),
      sizes_(sizes),
      threads_(threads),
      flights_(flights),
      shares_(flights.size()),
      crew_(engine, scratch_of(flights)) {
  for (Share& s : shares_) s.counters.resize(engine.schema().features.size());
  for (size_t s = 1; s < shares_.size(); ++s) {  // NaN: heads without a logit have nothing else
    const auto scores = static_cast<size_t>(threads.kept_rows() * engine.heads());
    shares_[s].out.assign(scores, std::numeric_limits<float>::quiet_NaN());
    shares_[s].logits = shares_[s].out;
  }
}

/// From where on a call of so many rows is shared out.
WorkRows CallShares::sizes_for(int64_t rows) const {
  const WorkRows awake = engine_.work_rows(true), asleep = engine_.work_rows(false);
  if (rows < std::min(awake.least(), asleep.least())) return {};
  return engine_.pool().awake() ? awake : asleep;
}

Status CallShares::run_rows(const Job& job, int32_t share, int64_t begin, int64_t end) {
  const int64_t heads = engine_.heads(), usual = job.batch.has_shared() ? threads_.rows : threads_.alone;
  Share& mine = shares_[static_cast<size_t>(share)];
  float* const out = share == 0 ? job.out + begin * heads : mine.out.data();
  float* logits = share == 0 ? job.control.logits : mine.logits.data();
  if (job.control.logits == nullptr) logits = nullptr;
  if (share == 0 && logits != nullptr) logits += begin * heads;
  for (int64_t at = begin; at < end;) {
    if (job.first_failed.load(std::memory_order_relaxed) < share) return {};  // nobody will look
    DPI_RETURN_IF_ERROR(check_control(job.control));
    const int64_t chunk_end = end_of_users(job.batch, at, usual, threads_.tall);
    DPI_ASSIGN_OR_RETURN(const RowRange range,
                         sizes_.next_chunk(engine_.schema(), job.batch, at, std::min(end, chunk_end)));
    FlightCall call;
    call.out = out + (at - begin) * heads;
    call.logits = logits != nullptr ? logits + (at - begin) * heads : nullptr;
    call.deadline_ns = job.control.deadline_ns;
    call.cancel = job.control.cancel;
    call.row_wait = job.control.row_wait;
    call.stages = share == 0 ? job.control.stages : nullptr;
    call.counters = mine.counters.data();
    call.crew = job.crew;
    DPI_RETURN_IF_ERROR(flights_[static_cast<size_t>(share)]->begin(job.batch, range, call));
    at = range.end;
  }
  return {};
}

/// Shares all rows out, so many at a time that their scores can be kept until those before them are known to
/// be good: the caller's memory is never written behind a row that failed.
void CallShares::run_rounds(Job& job) {
  const int64_t heads = engine_.heads(), rows = job.batch.item.rows;
  while (job.end < rows && job.first_failed.load(std::memory_order_relaxed) == job.count) {
    job.begin = job.end;
    job.end = std::min(rows, job.begin + job.count * threads_.round_rows());
    engine_.pool().run(job.count, run_share, &job);
    if (job.control.stages != nullptr) job.control.stages->mark(Stage::kCompute);  // the others' rows
    const int32_t good = job.first_failed.load(std::memory_order_relaxed);
    for (int32_t s = 1; s < good; ++s) {
      const Share& share = shares_[static_cast<size_t>(s)];
      const int64_t at = job.share_begin(s), n = (job.share_begin(s + 1) - at) * heads;
      std::copy_n(share.out.data(), n, job.out + at * heads);
      if (job.control.logits != nullptr) std::copy_n(share.logits.data(), n, job.control.logits + at * heads);
    }
    if (job.control.stages != nullptr) job.control.stages->mark(Stage::kCopy);
  }
}

void CallShares::run_share(void* context, int32_t share) {
  Job& job = *static_cast<Job*>(context);
  Status& status = job.shares.shares_[static_cast<size_t>(share)].status;
  try {
    status = job.shares.run_rows(job, share, job.share_begin(share), job.share_begin(share + 1));
  } catch (const std::bad_alloc&) {
    status = {Code::kOutOfMemory, "no memory is left"};
  } catch (...) {
    status = {Code::kInternal, "an exception"};
  }
  if (status.ok()) return;
  int32_t first = job.first_failed.load(std::memory_order_relaxed);
  while (share < first && !job.first_failed.compare_exchange_weak(first, share, std::memory_order_relaxed)) {
  }
}

void CallShares::clear_counters(int32_t shares) {
  for (int32_t s = 0; s < shares; ++s) {
    std::vector<FeatureCounters>& mine = shares_[static_cast<size_t>(s)].counters;
    std::fill(mine.begin(), mine.end(), FeatureCounters{});
  }
}

void CallShares::join_crew(void* context, int32_t member) {
  Job& job = *static_cast<Job*>(context);
  if (member > 0) return job.crew->help(member);
  run_share(context, 0);
  job.crew->close();
}

/// With as many of `most` threads as there are processors for.
void CallShares::share_out(Job& job, int32_t most, const WorkRows* as) {
  ThreadPool& pool = engine_.pool();
  const ThreadPool::Caller caller(pool);  // small calls too: they need a processor
  const int64_t rows = job.batch.item.rows;
  const WorkRows sizes = as != nullptr ? *as : sizes_for(rows);
  if (const int32_t limit = pool.limit(); limit > 0) most = std::min(most, limit);
  const int32_t threads = rows >= sizes.least() ? caller.threads(most) : 1;
  job.count = static_cast<int32_t>(std::clamp<int64_t>(rows / sizes.min_share, 1, threads));
  job.first_failed = job.count;
  clear_counters(job.count);
  if (job.count > 1) return run_rounds(job);
  job.end = rows;
  if (threads == 1 || rows < sizes.crew_rows) return run_share(&job, 0);
  job.crew = &crew_;
  crew_.open(threads);
  pool.run(threads, join_crew, &job);
}

Status CallShares::run(const Batch& batch, float* out, const RunControl& control, int32_t most,
                       std::vector<FeatureCounters>* counters, const WorkRows* as) {
  Job job{*this, batch, out, control, 1, 1, 0, 0};
  most = std::min(most, static_cast<int32_t>(shares_.size()));
  if (most > 1) {
    share_out(job, most, as);
  } else {
    clear_counters(1);
    job.end = batch.item.rows;
    run_share(&job, 0);
  }
  const int32_t count = job.count, failed = job.first_failed.load(std::memory_order_relaxed);
  for (int32_t s = 0; s <= std::min(failed, count - 1);
       ++s) {  // what lies behind a fault would not have been met
    const std::vector<FeatureCounters>& mine = shares_[static_cast<size_t>(s)].counters;
    for (size_t f = 0; f < counters->size(); ++f) (*counters)[f].add(mine[f]);
  }
  return failed < count ? std::move(shares_[static_cast<size_t>(failed)].status) : Status();
}

}  // namespace dpi
