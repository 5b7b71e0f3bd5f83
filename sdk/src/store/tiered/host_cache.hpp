// The host tier: keys of a call -> places that hold their rows until the call is over.
//
//   auto cache = HostCache::make(tables, options, source, finish, hooks);
//   auto reader = (*cache)->make_reader(max_keys);                    // one per context
//   DPI_RETURN_IF_ERROR((*cache)->acquire(**reader, lookups, deadline));  // places are written
//   ... kernels read view(table).base + place * row_bytes, until the device has finished ...
//   (*cache)->release(**reader);
//
// A call whose rows are all here takes no lock, allocates nothing and writes its reader's lines only. Others
// go by the table's policy: exact waits for its rows (kTimeout at the deadline, nothing partial), default
// serves the table's default row and has the row fetched behind, fail answers kNotFound and has it fetched
// behind. While a table's store is down, CacheOptions::down may say otherwise. One fetch per key, however
// many calls want it. kQueueFull: all fetch jobs are taken. kOutOfMemory, with numbers: the call's distinct
// keys do not fit the tier at once. A failed acquire has released itself.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <dpi/kernels/tensor.hpp>

#include "store/row_wait.hpp"
#include "store/tiered/arena.hpp"
#include "store/tiered/cache_reader.hpp"
#include "store/tiered/fetcher.hpp"
#include "store/tiered/line_plan.hpp"

namespace dpi::tiered {

struct CacheTable {
  TierTable row;
  int64_t source_bytes = 0;                // what the source writes; 0 = the whole row
  MissPolicy policy = MissPolicy::kExact;  // of the first member
  std::vector<std::byte> default_row;      // of absent keys; empty = zeros
  // Its rows may change in the source: RowSource::sequence is asked every second, and when it has risen all
  // of the table's rows are taken out, one second and the time of a fetch after the last that may be older.
  bool stale = false;
};

struct CacheOptions {
  uint64_t budget = 0;                      // bytes of rows and directories
  int32_t reserved = 0;                     // rows before place 0 of every view, which are the caller's
  int32_t shards = 8;                       // per size class at most
  uint64_t seed = 0x5eed;                   // of the directories' hash
  uint64_t absent_age_ns = 60'000'000'000;  // 0 = absent keys are not remembered
  uint64_t place_wait_ns = 1'000'000'000;   // how long a call waits for other calls' places
  uint64_t device_bytes = 0;                // of a cache on the device over this one: line_plan.hpp
  Fetcher::Options fetch;
  DownOptions down;
  LogSink* log = nullptr;  // for messages about stores; outlives the cache
};

class HostCache {
 public:
  /// source outlives the cache. All memory is taken here.
  static Result<std::unique_ptr<HostCache>> make(std::vector<CacheTable> tables, const CacheOptions& options,
                                                 RowSource* source, FinishRow finish,
                                                 const MemoryHooks& hooks) {
    return make(std::move(tables), options, source, finish, hooks, hooks);
  }
  /// for_rows: where kernels can read rows.
  static Result<std::unique_ptr<HostCache>> make(std::vector<CacheTable> tables, const CacheOptions& options,
                                                 RowSource* source, FinishRow finish,
                                                 const MemoryHooks& for_rows, const MemoryHooks& hooks);
  /// Bytes of memory for these tables, and of a reader for calls of so many keys.
  static Result<uint64_t> bytes(const std::vector<TierTable>& tables, const CacheOptions& options);
  static uint64_t reader_bytes(int64_t max_keys);
  /// How it would spend CacheOptions::device_bytes.
  static Result<LinePlan> plan_lines_of(const std::vector<TierTable>& tables, const CacheOptions& options);
  /// No reader may be left.
  ~HostCache();
  HostCache(const HostCache&) = delete;
  HostCache& operator=(const HostCache&) = delete;

  struct Return {
    HostCache* cache = nullptr;
    void operator()(CacheReader* reader) const;
  };
  using Reader = std::unique_ptr<CacheReader, Return>;
  /// One more model that uses the cache, with policies of its own, one per table. Rows, places and fetch
  /// threads are those of all; what calls met and what was fetched for them is counted apart.
  std::shared_ptr<CacheMember> join(std::vector<MissPolicy> policies) const;
  /// The member that came with the tables.
  CacheMember& first() const { return *first_; }
  /// max_keys: of one call, over all its lookups. The member outlives the reader.
  Result<Reader> make_reader(int64_t max_keys, CacheMember& member);
  Result<Reader> make_reader(int64_t max_keys) { return make_reader(max_keys, first()); }

  /// may_wait: for places that other calls hold. Without, a call that would have to answers kOutOfMemory at
  /// once. cancel: read atomically every millisecond of waiting; kCancelled when it is not 0. row_wait: told
  /// before the call waits, and when it goes on.
  Status acquire(CacheReader& reader, std::span<const CacheLookup> lookups, uint64_t deadline_ns,
                 bool may_wait = true, const volatile int32_t* cancel = nullptr, RowWait* row_wait = nullptr);
  /// Nothing to release is no error.
  void release(CacheReader& reader);

  /// Base and stride for kernels; rows = places of the size class. Never changes. Places -reserved ... -1 are
  /// the caller's.
  kernels::TableView view(int32_t table) const;
  /// Links the row of a key that is not here yet, as long as free places are plenty: false when they are not.
  /// heat: as warm as Admission would have made it; 0 = colder than a row that a call has just asked for. For
  /// loading, before calls come.
  bool preload(int32_t table, int64_t key, std::span<const std::byte> row, uint8_t heat = 0);
  /// The number, over all size classes, of the shard that a key falls to; what preload may take there.
  int32_t shard_of(int32_t table, int64_t key) const;
  int32_t spare(int32_t shard) const { return shards_[static_cast<size_t>(shard)]->spare(); }
  /// Bytes of a row that the source writes.
  int64_t source_bytes(int32_t table) const { return tables_[static_cast<size_t>(table)].spec.source_bytes; }
  const ArenaPlan& plan() const { return arena_.plan(); }
  int32_t default_place(int32_t table) const { return arena_.default_place(table); }

  // For a cache on the device, which holds copies of rows.
  /// The copies of a size class that may have lines on the device; else null.
  CopiedPlaces* copied(int32_t size_class) const { return copied_[static_cast<size_t>(size_class)].get(); }
  /// The lines with which the cache on the device begins.
  const LinePlan& lines() const { return lines_; }
  /// Row 0 of a size class is the first of the reserved ones.
  const std::byte* first_row(int32_t size_class) const { return arena_.row(size_class, -options_.reserved); }
  int32_t size_class(int32_t table) const { return arena_.plan().class_of[static_cast<size_t>(table)]; }
  Epochs& epochs() { return epochs_; }
  /// No copy of these rows can be found any more: CopiedPlaces::left and Shard::left.
  void left(int32_t size_class, std::span<const int32_t> rows);
  /// Sampled lookups of all members: all, and those of rows that the device held.
  struct Sampled {
    uint64_t all = 0, held = 0;
  };
  Sampled sampled(int32_t table) const;

  struct Stats {
    TableCounts lookups;
    Fetcher::TableStats fetches;
  };
  /// Counts of one member: lookups of readers that live, and of those that have gone.
  Stats stats(int32_t table, const CacheMember& member) const;
  Stats stats(int32_t table) const { return stats(table, first()); }
  /// Every store below, whichever member asked it.
  std::vector<StoreStatus> stores() const;
  Shard::Fill fill(int32_t size_class) const;
  /// The keys of a table whose rows are here, while others use the cache.
  std::vector<WarmKey> warm_keys(int32_t table) const;
  /// Has what readers sampled warm its rows, as fetch threads do every 50 ms.
  void learn();

 private:
  struct Table {
    CacheTable spec;
    int32_t size_class = 0;
    int32_t default_place = 0;
    int32_t class_places = 0;  // default rows lie behind
    TableCode code;
    const Directory* directory = nullptr;
    Shard* const* shards = nullptr;  // of its size class
    int32_t store = 0;               // of health_
    int64_t sequence = -1;           // idle's: the last that was seen
    uint64_t forget_ns = 0;          // idle's: when rows are taken out; 0 = none are to be
  };
  /// Up to kGroup keys, probed together.
  struct Group;

  HostCache() = default;
  Status build(std::vector<CacheTable> tables, const CacheOptions& options, RowSource* source,
               FinishRow finish, const MemoryHooks& for_rows, const MemoryHooks& hooks);
  void build_shards();
  void build_tables(std::vector<CacheTable> tables);
  void make_fetcher(RowSource* source);
  void put_row(int32_t table, int64_t key, std::span<const std::byte> row, std::byte* to) const;
  void idle();
  void follow_updates(uint64_t now_ns);

  // probe.cpp
  void probe(CacheReader& r, std::span<const CacheLookup> lookups) const;
  void look(CacheReader& r, std::span<const CacheLookup> lookups, Group* g, const Group* behind) const;
  void finish(CacheReader& r, std::span<const CacheLookup> lookups, const Group& g) const;
  void sample(CacheReader& r, int32_t table, const int32_t* places, int64_t n) const;

  // acquire.cpp: what a call with misses does
  struct Call;
  Status settle(Call& c);
  int32_t distinct(CacheReader& r, int32_t table, int64_t key);
  void forget_distinct(CacheReader& r);
  void collect(Call& c);
  enum class Started { kAll, kSome, kNone, kNoPlace };
  Started start_fetches(Call& c);
  Started start_fetch(Call& c, Miss* m, FetchJob** job);
  void submit(const Call& c, FetchJob* job);
  Status queue_full(const CacheReader& r) const;
  int64_t found_hits(const CacheLookup& l) const;
  void uncount(Call& c);
  void count_waited(Call& c);
  Status finish_fetches(Call& c);
  void drop_fetches(CacheReader& r);
  Status deliver(Call& c);
  DownPolicy down(Miss& m) const;
  Status store_down(const Miss& m) const;
  Status not_here(const Call& c, const CacheReader::Missed& missed) const;

  // scarce.cpp: what it does when the tier is full of rows that calls hold
  Status hold_places(Call& c);
  Status count_wanted(Call& c);
  Status wait_for_places(Call& c, uint64_t until);
  void give_back_places(CacheReader& r);

  CacheOptions options_;
  Arena arena_;
  std::vector<Directory> directories_;  // per size class
  std::vector<std::vector<Shard*>> class_shards_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::vector<Table> tables_;
  LinePlan lines_;
  std::vector<std::unique_ptr<CopiedPlaces>> copied_;  // per size class
  std::vector<Sampled> sampled_;                       // per table, under readers_mutex_
  Epochs epochs_;
  FinishRow finish_;  // also of rows that no fetch brings: defaults, and those that come while loading
  std::unique_ptr<StoreHealth> health_;
  std::unique_ptr<Fetcher> fetcher_;
  HeldCount fetches_held_;
  RowSource* source_ = nullptr;
  uint64_t expired_ns_ = 0, followed_ns_ = 0;  // idle's
  std::timed_mutex scarce_;                    // of the one call that waits for places

  std::shared_ptr<CacheMember> first_;

  mutable std::mutex readers_mutex_;  // of the next, and of what members count of readers that have gone
  std::vector<CacheReader*> readers_;
  uint64_t readers_made_ = 0;
};

}  // namespace dpi::tiered
