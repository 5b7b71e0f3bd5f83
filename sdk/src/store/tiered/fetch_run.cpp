// A job that has left the queue: its rows asked for, checked and shown to those who wait. Rows of a route
// that is down are not asked for, and those of one that fails do not take the others with them.
#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <utility>

#include "base/clock.hpp"
#include "store/tiered/fetcher.hpp"

namespace dpi::tiered {

namespace {

/// Rows are filled with it before a fetch: one that still holds nothing else was not written.
constexpr int kUnwritten = 0xA5;
constexpr int64_t kLeastToTell = 8;  // bytes; a shorter row may really look like this

bool is_unwritten(const std::byte* row, int64_t bytes) {
  return bytes >= kLeastToTell && row[0] == std::byte{kUnwritten} &&
         std::memcmp(row, row + 1, static_cast<size_t>(bytes - 1)) == 0;
}

bool is_found(const FetchJob& job, size_t i) { return (job.found[i / 64] >> (i % 64) & 1) != 0; }
bool is_failed(const FetchJob& job, size_t i) { return (job.failed[i / 64] >> (i % 64) & 1) != 0; }

}  // namespace

void Fetcher::run(FetchJob* job) {
  const size_t rows = job->n;
  const size_t refused = leave_out_refused(job);
  const bool asks = job->n > 0;
  const uint64_t begin = monotonic_ns();
  if (asks) {
    std::shared_ptr<const Status> failure;
    Status fetched = fetch(job);
    if (!fetched.ok()) {
      tell_health(*job, fetched);
      failure = why_failed(*job, std::move(fetched));
    }
    publish(job, failure);
  }
  const uint64_t took = monotonic_ns() - begin;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    (*job->counts)[static_cast<size_t>(job->table)].expired += refused;
    if (asks) count(*job, took);
    finish(job, rows);
  }
  done_.notify_all();
}

/// Why row i of a job is not asked for; null = it is.
std::shared_ptr<const Status> Fetcher::refusal(const FetchJob& job, size_t i) const {
  const int32_t store = store_of(job), route = source_->route(job.table, job.keys[i]);
  return health_->policy(store, route) == DownPolicy::kAsMiss ? nullptr : health_->refusal(store, route);
}

/// Ends the fetches of rows whose route went down while they were queued: so many.
size_t Fetcher::leave_out_refused(FetchJob* job) const {
  if (!health_->decides(store_of(*job))) return 0;
  const size_t n = std::exchange(job->n, 0);
  for (size_t i = 0; i < n; ++i) {
    if (const auto why = refusal(*job, i))
      job->shards[i]->fail(job->fetches[i], why);
    else
      job->add(job->keys[i], job->rows[i], job->shards[i], job->fetches[i]);
  }
  return n - job->n;
}

std::shared_ptr<const Status> Fetcher::why_failed(const FetchJob& job, Status why) const {
  try {
    const std::string& table = rows_[static_cast<size_t>(job.table)].table;
    return std::make_shared<const Status>(std::move(why).within("table '" + table + "'"));
  } catch (const std::exception&) {
    return no_memory_;
  }
}

/// One failure of each route whose rows failed. Where these are several, the error is about the first of
/// them, and nodes say of themselves what is wrong.
void Fetcher::tell_health(const FetchJob& job, const Status& why) {
  const int32_t store = store_of(job);
  std::array<int32_t, kRoutes> first;  // row of the job
  first.fill(-1);
  int32_t routes = 0;
  for (size_t i = 0; i < job.n; ++i) {
    if (!is_failed(job, i)) continue;
    int32_t& at = first[static_cast<size_t>(source_->route(job.table, job.keys[i]))];
    routes += at < 0 ? 1 : 0;
    if (at < 0) at = static_cast<int32_t>(i);
  }
  try {
    const std::vector<StoreNode> nodes = source_->nodes(store);
    for (int32_t route = 0; route < kRoutes; ++route) {
      const int32_t i = first[static_cast<size_t>(route)];
      if (i < 0) continue;
      const auto here = [route](const StoreNode& n) { return n.route == route; };
      const auto node = std::find_if(nodes.begin(), nodes.end(), here);
      const bool named = nodes.size() > 1 && node != nodes.end();
      const bool own = named && routes > 1 && node->down && node->last.code != Code::kOk;
      health_->failed(store, {route, job.table, job.keys[static_cast<size_t>(i)]},
                      named              ? node->address
                      : nodes.size() > 1 ? "(no server)"
                                         : "",
                      own ? Status(node->last.code, node->last.text) : why);
    }
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): no memory to tell it
  }
}

FetchRequest Fetcher::prepare(FetchJob* job, uint64_t deadline_ns) const {
  const Row& row = rows_[static_cast<size_t>(job->table)];
  for (size_t i = 0; i < job->n; ++i) {
    std::memset(job->rows[i], kUnwritten, static_cast<size_t>(row.source_bytes));
    std::memset(job->rows[i] + row.source_bytes, 0, static_cast<size_t>(row.stride - row.source_bytes));
  }
  std::fill(job->found.begin(), job->found.end(), 0);
  std::fill(job->failed.begin(), job->failed.end(), 0);
  FetchRequest request;
  request.table = job->table;
  request.keys = {job->keys.data(), job->n};
  request.rows = job->rows.data();
  request.found = job->found.data();
  request.deadline_ns = deadline_ns;
  return request;
}

/// With an error, the job's `failed` says which rows it is about.
Status Fetcher::fetch(FetchJob* job) {
  Status got;
  try {
    got = fetch_from(job);
  } catch (const std::exception&) {
    std::fill(job->failed.begin(), job->failed.end(), ~uint64_t{0});
    got = *no_memory_;
  }
  for (size_t w = 0; w < job->found.size(); ++w) job->found[w] &= ~job->failed[w];
  return got;
}

Status Fetcher::fetch_from(FetchJob* job) {
  FetchRequest request = prepare(job, job->deadline_ns);
  request.failed = job->failed.data();
  Status got = source_->fetch(request);
  const auto none = [](uint64_t word) { return word == 0; };
  const bool all = !got.ok() && std::all_of(job->failed.begin(), job->failed.end(), none);
  if (got.ok() || all) std::fill(job->failed.begin(), job->failed.end(), all ? ~uint64_t{0} : 0);
  Status bad = check(*job);
  if (!bad.ok()) {
    std::fill(job->failed.begin(), job->failed.end(), ~uint64_t{0});
    return bad;
  }
  complete(job);
  return got;
}

/// How many rows it brought, which the job keeps no longer. What goes wrong is for fetch() to tell.
uint64_t Fetcher::fetch_ready(FetchJob* job, uint64_t deadline_ns) {
  try {
    source_->fetch_ready(prepare(job, deadline_ns));
    if (!check(*job).ok()) return 0;
    complete(job);
  } catch (const std::exception&) {
    return 0;
  }
  return publish_found(job);
}

void Fetcher::complete(FetchJob* job) {
  if (finish_.finish == nullptr) return;
  for (size_t i = 0; i < job->n; ++i) {
    if (is_found(*job, i) && !is_failed(*job, i))
      finish_.finish(finish_.context, job->table, job->keys[i], job->rows[i]);
  }
}

/// A source is not believed: rows that were not written must never be served.
Status Fetcher::check(const FetchJob& job) const {
  const Row& row = rows_[static_cast<size_t>(job.table)];
  for (size_t i = 0; i < job.found.size() * 64; ++i) {
    if (!is_found(job, i) || is_failed(job, i)) continue;
    if (i >= job.n) return internal_error("the source found a row that it was not asked for");
    if (is_unwritten(job.rows[i], row.source_bytes))
      return internal_error("the source found key " + std::to_string(job.keys[i]) + ", but wrote no row");
  }
  return {};
}

/// failure: of rows that failed.
void Fetcher::publish(FetchJob* job, const std::shared_ptr<const Status>& failure) {
  const uint64_t now = monotonic_ns();
  for (size_t i = 0; i < job->n; ++i) {
    if (is_failed(*job, i))
      job->shards[i]->fail(job->fetches[i], failure);
    else
      job->shards[i]->publish(job->fetches[i], is_found(*job, i), now);
  }
}

uint64_t Fetcher::publish_found(FetchJob* job) {
  const uint64_t now = monotonic_ns();
  const size_t n = std::exchange(job->n, 0);
  for (size_t i = 0; i < n; ++i) {
    if (is_found(*job, i))
      job->shards[i]->publish(job->fetches[i], true, now);
    else
      job->add(job->keys[i], job->rows[i], job->shards[i], job->fetches[i]);
  }
  return n - job->n;
}

void Fetcher::count(const FetchJob& job, uint64_t ns) {
  FetchCount& c = (*job.counts)[static_cast<size_t>(job.table)];
  uint64_t found = 0, failed = 0;
  for (size_t i = 0; i < job.n; ++i) {
    failed += is_failed(job, i) ? 1 : 0;
    found += is_found(job, i) ? 1 : 0;  // of what failed nothing is
  }
  c.latency.add(ns);
  ++c.reads;
  c.read_ns += ns;
  c.failed += failed;
  c.fetched += found;
  c.absent += job.n - found - failed;
  c.bytes += found * static_cast<uint64_t>(rows_[static_cast<size_t>(job.table)].source_bytes);
}

}  // namespace dpi::tiered
