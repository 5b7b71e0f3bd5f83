// Brings rows from the tier below into places that misses have claimed: a fixed number of jobs, a fixed
// number of threads (named dpi-fetch), and a bound on the bytes that are under way. Who finds them all taken
// is told so and never waits. Jobs run in the order in which they came, but a job that nobody waits for any
// more leaves the queue, and while the first has spent a quarter of its callers' time there the newest goes
// before it: so a store that is too slow for all still serves some in time. Rows that need no waiting are
// brought by the caller itself, as long as few rows are under way: what it has the disk begin meanwhile stays
// few, so that a disk that hangs cannot hold it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/status.hpp"
#include "store/tiered/cache_member.hpp"
#include "store/tiered/row_source.hpp"
#include "store/tiered/shard.hpp"
#include "store/tiered/store_health.hpp"

namespace dpi::tiered {

/// Completes a row as it arrives, before anybody sees it: derived scalars behind the source's bytes.
struct FinishRow {
  void (*finish)(void* context, int32_t table, int64_t key, std::byte* row) = nullptr;
  void* context = nullptr;
};

/// Up to job_rows keys of one table.
struct FetchJob {
  int32_t table = 0;
  uint64_t deadline_ns = 0;
  uint64_t queued_ns = 0;      // when it was queued
  uint64_t callers_until = 0;  // whoever asked for it waits until then; 0 = for ever
  bool waited = false;         // somebody does
  enum class Stage : uint8_t { kTaken, kQueued, kRunning } stage = Stage::kTaken;
  uint64_t bytes = 0;   // reserved of the bound
  bool at_ease = true;  // few rows were under way when it was taken
  size_t n = 0;
  std::vector<int64_t> keys;
  std::vector<std::byte*> rows;
  std::vector<Shard*> shards;
  std::vector<int32_t> fetches;
  std::vector<uint64_t> found, failed;
  std::shared_ptr<FetchCounts> counts;  // where it is counted; under the fetcher's lock
  FetchJob* next = nullptr;
  FetchJob* before = nullptr;  // in the queue

  bool full() const { return n == keys.size(); }
  void add(int64_t key, std::byte* row, Shard* shard, int32_t fetch) {
    keys[n] = key, rows[n] = row, shards[n] = shard, fetches[n] = fetch;
    ++n;
  }
};

class Fetcher {
 public:
  struct Options {
    int32_t threads = 2;
    int32_t jobs = 64;
    int32_t job_rows = 256;
    uint64_t bytes_in_flight = uint64_t{64} << 20;
    uint64_t fetch_ns = 1'000'000'000;  // a fetch may take so long although its callers give up before
  };
  struct Row {
    std::string table;
    int64_t source_bytes = 0;  // what the source writes
    int64_t stride = 0;        // what the row has room for
    int32_t store = 0;         // of StoreHealth
  };
  struct TableStats {
    uint64_t fetched = 0, absent = 0, failed = 0, expired = 0;  // rows
    uint64_t bytes = 0;                                         // of the source
    uint64_t reads = 0, read_ns = 0;                            // of fetch threads
    uint64_t p50_ns = 0, p99_ns = 0;                            // of fetches, not of rows
  };

  /// idle: called by one thread after each job and every idle_ns.
  Fetcher(const Options& options, RowSource* source, std::vector<Row> rows, FinishRow finish,
          StoreHealth* health, std::function<void()> idle, uint64_t idle_ns);
  ~Fetcher();
  Status start();
  /// Bytes of its jobs, as they will be and as they are.
  static uint64_t bytes(const Options& options);
  uint64_t job_bytes() const;

  /// An empty job, or null: all are taken, or as many bytes are under way as may be. counts: of whoever asks.
  FetchJob* take_job(int32_t table, const std::shared_ptr<FetchCounts>& counts);
  /// An empty job is put back, another one is queued. here: the caller brings what it can without waiting,
  /// until its deadline; nothing is queued when that is all.
  void submit(FetchJob* job, uint64_t deadline_ns, bool here);

  /// Counts finished jobs; for wait().
  uint64_t finished() const { return finished_.load(std::memory_order_acquire); }
  /// Returns when another job than the first `seen` has finished; false when the deadline passed (0 = none).
  uint64_t fetch_ns() const { return options_.fetch_ns; }
  bool wait(uint64_t seen, uint64_t deadline_ns);
  TableStats stats(const FetchCounts& counts, int32_t table) const;
  struct QueueStats {
    uint64_t queued = 0, running = 0, oldest_ns = 0;
  };
  QueueStats queue(int32_t store) const;

 private:
  void work(bool first);
  bool has_room(uint64_t bytes) const;
  void queue(FetchJob* job);
  FetchJob* unqueue(FetchJob* job);
  FetchJob* next_job(FetchJob** over);
  std::shared_ptr<const Status> why_over(const FetchJob& job, uint64_t now) const;
  void drop(FetchJob* job);
  void ask_again(int32_t store);
  void finish(FetchJob* job, size_t rows);

  // fetch_run.cpp
  void run(FetchJob* job);
  std::shared_ptr<const Status> refusal(const FetchJob& job, size_t i) const;
  size_t leave_out_refused(FetchJob* job) const;
  std::shared_ptr<const Status> why_failed(const FetchJob& job, Status why) const;
  void tell_health(const FetchJob& job, const Status& why);
  FetchRequest prepare(FetchJob* job, uint64_t deadline_ns) const;
  Status fetch(FetchJob* job);
  Status fetch_from(FetchJob* job);
  uint64_t fetch_ready(FetchJob* job, uint64_t deadline_ns);
  Status check(const FetchJob& job) const;
  void complete(FetchJob* job);
  void publish(FetchJob* job, const std::shared_ptr<const Status>& failure);
  uint64_t publish_found(FetchJob* job);
  void count(const FetchJob& job, uint64_t ns);
  void recycle(FetchJob* job);

  const Options options_;
  RowSource* const source_;
  const std::vector<Row> rows_;
  const FinishRow finish_;
  StoreHealth* const health_;
  const std::function<void()> idle_;
  const uint64_t idle_ns_;
  const std::shared_ptr<const Status> no_memory_ =
      std::make_shared<const Status>(Code::kOutOfMemory, "no memory while rows were fetched");
  const std::shared_ptr<const Status> expired_ = std::make_shared<const Status>(
      Code::kTimeout, "the deadline passed while rows waited in the fetch queue (store.fetch_threads)");
  int32_t store_of(const FetchJob& job) const { return rows_[static_cast<size_t>(job.table)].store; }
  std::vector<std::byte> probe_row_;  // of the first thread

  mutable std::mutex mutex_;  // of the rest
  std::condition_variable queued_, done_;
  std::vector<std::unique_ptr<FetchJob>> all_;
  FetchJob* spare_ = nullptr;
  FetchJob* first_ = nullptr;
  FetchJob* last_ = nullptr;
  uint64_t bytes_ = 0;
  size_t under_way_ = 0;               // rows of jobs that were queued and have not finished
  std::atomic<uint64_t> finished_{0};  // written under the lock
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace dpi::tiered
