// A call that misses: distinct keys claimed, fetched, waited for, and their places written.
#include <algorithm>
#include <string>
#include <utility>

#include "base/clock.hpp"
#include "store/tiered/call.hpp"

namespace dpi::tiered {

namespace {

constexpr uint64_t kLookAtFlagNs = 1'000'000;
constexpr auto kSamplesOfCall = static_cast<int64_t>(SampleRing::kEntries);

bool passed(uint64_t deadline_ns) { return deadline_ns != 0 && monotonic_ns() >= deadline_ns; }

}  // namespace

uint64_t HostCache::Call::nap(uint64_t until) const {
  if (cancel == nullptr) return until;
  const uint64_t look = monotonic_ns() + kLookAtFlagNs;
  return until == 0 ? look : std::min(until, look);
}

Status HostCache::Call::begin_wait() {
  if (row_wait == nullptr || waits) return {};
  DPI_RETURN_IF_ERROR(row_wait->begin());
  waits = true;
  return {};
}

Status HostCache::Call::end_wait(Status settled) {
  if (!std::exchange(waits, false)) return settled;
  Status may = row_wait->end(settled.ok());
  return may.ok() ? settled : may;
}

Status HostCache::acquire(CacheReader& r, std::span<const CacheLookup> lookups, uint64_t deadline_ns,
                          bool may_wait, const volatile int32_t* cancel, RowWait* row_wait) {
  if (r.inside) return internal_error("a context acquired rows twice without releasing them");
  int64_t keys = 0;
  for (const CacheLookup& l : lookups) keys += l.n;
  if (keys > r.max_keys)
    return internal_error("a call of " + std::to_string(keys) + " keys in a context for " +
                          std::to_string(r.max_keys));
  r.steps.begin(std::max<int64_t>(kSampledOneIn, (keys + kSamplesOfCall - 1) / kSamplesOfCall));
  r.missed.clear();
  r.inside = true;
  epochs_.enter(*r.line);
  probe(r, lookups);
  if (r.missed.empty()) return {};
  Call c{r, lookups, deadline_ns, {}, false, may_wait, cancel, row_wait};
  Status settled;
  try {
    settled = c.end_wait(settle(c));
  } catch (...) {  // no memory for an error's text: what the call holds goes back all the same
    drop_fetches(r);
    if (c.scarce.owns_lock()) give_back_places(r);
    release(r);
    static_cast<void>(c.end_wait({Code::kOutOfMemory, ""}));
    throw;
  }
  if (!settled.ok()) release(r);
  return settled;
}

void HostCache::release(CacheReader& r) {
  if (r.inside) epochs_.leave(*r.line);
  r.inside = false;
}

/// The index of the key among the reader's misses, where it is added when it is new.
int32_t HostCache::distinct(CacheReader& r, int32_t table, int64_t key) {
  const Table& t = tables_[static_cast<size_t>(table)];
  const uint64_t h = t.directory->hash(t.code, key);
  const auto mask = static_cast<uint32_t>(r.distinct.size() - 1);
  for (auto e = static_cast<uint32_t>(h >> 16) & mask;; e = (e + 1) & mask) {
    const int32_t known = r.distinct[e] - 1;
    if (known < 0) {
      r.misses.push_back({{t.code, h, key},
                          table,
                          Directory::kMissing,
                          -1,
                          false,
                          DownPolicy::kAsMiss,
                          e,
                          t.shards[t.directory->shard_of(h)]});
      r.distinct[e] = static_cast<int32_t>(r.misses.size());
      return static_cast<int32_t>(r.misses.size()) - 1;
    }
    const Miss& m = r.misses[static_cast<size_t>(known)];
    if (m.key.key == key && m.table == table) return known;
  }
}

void HostCache::forget_distinct(CacheReader& r) {
  for (const Miss& m : r.misses) r.distinct[m.entry] = 0;
}

void HostCache::collect(Call& c) {
  c.r.misses.clear();
  for (auto& missed : c.r.missed) {
    const CacheLookup& l = c.lookups[static_cast<size_t>(missed.lookup)];
    missed.miss = distinct(c.r, l.table, l.keys[missed.at]);
  }
  forget_distinct(c.r);
}

Status HostCache::settle(Call& c) {
  CacheReader& r = c.r;
  Status result;
  const uint64_t begin = monotonic_ns();
  for (bool retried = false;;) {
    collect(c);
    const Started started = start_fetches(c);
    result = started == Started::kNone ? queue_full(r) : finish_fetches(c);
    drop_fetches(r);
    if (result.ok() && started == Started::kAll) {
      count_waited(c);
      result = deliver(c);
      break;
    }
    // A fetch that another call had begun before is asked for again, once. One of this call's own has had all
    // its time.
    const bool others = c.deadline_ns != 0 || monotonic_ns() - begin < fetcher_->fetch_ns();
    const bool again = result.code() == Code::kTimeout && !retried && !passed(c.deadline_ns) && others;
    if (!result.ok() && !again) break;
    retried = retried || again;
    uncount(c);
    if (started == Started::kNoPlace) {
      epochs_.leave(*r.line);  // places that wait for this call come free only without it
      result = hold_places(c);
      epochs_.enter(*r.line);
      if (!result.ok()) break;
    }
    r.missed.clear();
    probe(r, c.lookups);
  }
  if (c.scarce.owns_lock()) {
    give_back_places(r);
    c.scarce.unlock();
  }
  return result;
}

/// Counts hits in what probe wrote: missed keys have no place yet, absent ones the default row's.
int64_t HostCache::found_hits(const CacheLookup& l) const {
  const int32_t none = tables_[static_cast<size_t>(l.table)].default_place;
  return std::count_if(l.places, l.places + l.n, [none](int32_t p) { return p >= 0 && p != none; });
}

/// Takes back what probe counted, because the call looks again.
void HostCache::uncount(Call& c) {
  if (!c.again) std::fill(c.r.gained.begin(), c.r.gained.end(), 0);
  for (const CacheLookup& l : c.lookups) {
    const auto table = static_cast<size_t>(l.table);
    const int64_t hits = found_hits(l);
    const int64_t absent = std::count(l.places, l.places + l.n, tables_[table].default_place);
    if (!c.again) c.r.gained[table] -= hits;
    add_count(&c.r.counts[table].hits, -hits);
    add_count(&c.r.counts[table].absent, -absent);
  }
  c.again = true;
}

/// Rows that a call has fetched itself before it looked again were waited for, and no hits.
void HostCache::count_waited(Call& c) {
  if (!c.again) return;
  for (const CacheLookup& l : c.lookups) c.r.gained[static_cast<size_t>(l.table)] += found_hits(l);
  for (size_t t = 0; t < c.r.gained.size(); ++t) {
    const int64_t waited = std::max<int64_t>(0, std::exchange(c.r.gained[t], 0));
    add_count(&c.r.counts[t].hits, -waited);
    add_count(&c.r.counts[t].late, waited);
  }
}

Status HostCache::queue_full(const CacheReader& r) const {
  const Table& t = tables_[static_cast<size_t>(r.misses[0].table)];
  return {Code::kQueueFull, "the fetch queue is full (store.fetch_queue, store.fetch_bytes): table '" +
                                t.spec.row.name + "' and others wait for " + std::to_string(r.misses.size()) +
                                " rows; retry"};
}

/// Claims every miss, or as many as fetches and places allow.
HostCache::Started HostCache::start_fetches(Call& c) {
  FetchJob* job = nullptr;
  Started all = Started::kAll;
  bool any = false;
  for (Miss& m : c.r.misses) {
    all = start_fetch(c, &m, &job);
    any = any || m.fetch >= 0;
    if (all != Started::kAll) break;
  }
  if (job != nullptr) submit(c, job);
  return all == Started::kNone && any ? Started::kSome : all;
}

/// Who waits for the rows brings those itself that are at hand: to hand them over costs more.
void HostCache::submit(const Call& c, FetchJob* job) {
  const bool wait = c.policy(job->table) == MissPolicy::kExact;
  fetcher_->submit(job, c.deadline_ns, wait && !c.cancelled());
}

/// kAll: the miss has a place, a fetch, or (by its table's policy) no need of one.
HostCache::Started HostCache::start_fetch(Call& c, Miss* m, FetchJob** job) {
  const Table& t = tables_[static_cast<size_t>(m->table)];
  const bool wait = c.policy(m->table) == MissPolicy::kExact;
  m->down = down(*m);
  if (m->down != DownPolicy::kAsMiss) return Started::kAll;
  if (*job != nullptr && ((*job)->table != m->table || (*job)->full()))
    submit(c, std::exchange(*job, nullptr));
  if (*job == nullptr) *job = fetcher_->take_job(m->table, c.r.member->fetches);
  Shard::Claimed claimed{Shard::Claim::kFull, Directory::kMissing, -1};
  PlaceStack* held = c.scarce.owns_lock() ? &c.r.stacks[static_cast<size_t>(m->shard->number())] : nullptr;
  if (*job != nullptr) claimed = m->shard->claim(m->key, wait, held, monotonic_ns());
  switch (claimed.what) {
    case Shard::Claim::kPlace:
      m->place = claimed.place;
      return Started::kAll;
    case Shard::Claim::kStarted:
      (*job)->add(m->key.key, arena_.row(t.size_class, claimed.place), m->shard, claimed.fetch);
      [[fallthrough]];
    case Shard::Claim::kJoined:
      if (wait) m->fetch = claimed.fetch;
      m->waited = wait;
      return Started::kAll;
    case Shard::Claim::kNoPlace:
    case Shard::Claim::kFull:
      break;
  }
  if (wait) return claimed.what == Shard::Claim::kNoPlace ? Started::kNoPlace : Started::kNone;
  add_count(&c.r.counts[static_cast<size_t>(m->table)].dropped, 1);
  return Started::kAll;
}

Status HostCache::finish_fetches(Call& c) {
  Status failed;
  for (Miss& m : c.r.misses) {
    while (m.fetch >= 0) {
      const uint64_t seen = fetcher_->finished();
      if (const auto landed = m.shard->poll(m.fetch)) {
        m.fetch = -1;
        m.place = landed->place;
        if (landed->failure == nullptr) continue;
        m.down = down(m);
        if (m.down == DownPolicy::kAsMiss && failed.ok()) failed = *landed->failure;
      } else if (m.down = down(m); m.down != DownPolicy::kAsMiss) {
        m.shard->drop(std::exchange(m.fetch, -1));
      } else if (c.cancelled()) {
        return {Code::kCancelled, "cancelled while rows were fetched"};
      } else if (Status may = c.begin_wait(); !may.ok()) {
        return may;
      } else if (!fetcher_->wait(seen, c.nap(c.deadline_ns)) && passed(c.deadline_ns)) {
        return {Code::kTimeout, "the deadline passed while rows of table '" +
                                    tables_[static_cast<size_t>(m.table)].spec.row.name + "' were fetched"};
      }
    }
  }
  return failed;
}

void HostCache::drop_fetches(CacheReader& r) {
  for (Miss& m : r.misses) {
    if (m.fetch >= 0) m.shard->drop(std::exchange(m.fetch, -1));
  }
}

Status HostCache::deliver(Call& c) {
  for (const auto& missed : c.r.missed) {
    const Table& t = c.table(*this, missed.lookup);
    const Miss& m = c.r.misses[static_cast<size_t>(missed.miss)];
    TableCounts& counts = c.r.counts[static_cast<size_t>(m.table)];
    const bool down = m.place == Directory::kMissing && m.down != DownPolicy::kAsMiss;
    if (down) add_count(&counts.down, 1);
    if (down && m.down == DownPolicy::kFail) return store_down(m);
    if (!down && m.place == Directory::kMissing && c.policy(m.table) == MissPolicy::kFail)
      return not_here(c, missed);
    uint64_t* const found = m.waited ? &counts.late : &counts.hits;
    add_count(m.place >= 0 ? found : m.place == Directory::kAbsent ? &counts.absent : &counts.defaulted, 1);
    const CacheLookup& l = c.lookups[static_cast<size_t>(missed.lookup)];
    l.places[missed.at] = m.place >= 0 ? m.place : t.default_place;
  }
  return {};
}

/// The policy for a row that is not here; kAsMiss: its table's own.
DownPolicy HostCache::down(Miss& m) const {
  const int32_t store = tables_[static_cast<size_t>(m.table)].store;
  if (!health_->decides(store)) return DownPolicy::kAsMiss;
  if (m.route < 0) m.route = source_->route(m.table, m.key.key);
  return health_->policy(store, m.route);
}

Status HostCache::store_down(const Miss& m) const {
  const Table& t = tables_[static_cast<size_t>(m.table)];
  return Status(*health_->refusal(t.store, m.route)).within("table '" + t.spec.row.name + "'");
}

Status HostCache::not_here(const Call& c, const CacheReader::Missed& missed) const {
  const CacheLookup& l = c.lookups[static_cast<size_t>(missed.lookup)];
  return Status(Code::kNotFound, "table '" + tables_[static_cast<size_t>(l.table)].spec.row.name + "': key " +
                                     std::to_string(l.keys[missed.at]) + " is not in host memory")
      .at(missed.at, missed.lookup);
}

}  // namespace dpi::tiered
