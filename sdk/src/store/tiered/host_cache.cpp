#include "store/tiered/host_cache.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <utility>

#include "base/clock.hpp"

namespace dpi::tiered {

namespace {

constexpr uint64_t kLearnEvery =
    50'000'000;  // ns; samples of readers that never miss, and too old absent keys
constexpr uint64_t kFollowEvery = 1'000'000'000;  // ns; sequence numbers of tables that are updated

/// The shape of every shard of a size class; its number is left out.
Shard::Shape shard_shape(const ArenaPlan::Class& size, const CacheOptions& options) {
  Shard::Shape shard;
  shard.places = size.places_per_shard;
  shard.remembered = size.remembered;
  // Four times a shard's share of the rows that can be under way: keys spread unevenly, and landed fetches
  // live on while callers look at them.
  const int64_t rows = int64_t{std::max(1, options.fetch.jobs)} * std::max(1, options.fetch.job_rows);
  const int64_t fetches = std::max<int64_t>(256, 4 * rows / size.shards);
  shard.fetches = static_cast<int32_t>(std::min(fetches, 2 * int64_t{size.places_per_shard} + 16));
  shard.absent_age_ns = options.absent_age_ns;
  return shard;
}

}  // namespace

Result<std::unique_ptr<HostCache>> HostCache::make(std::vector<CacheTable> tables,
                                                   const CacheOptions& options, RowSource* source,
                                                   FinishRow finish, const MemoryHooks& for_rows,
                                                   const MemoryHooks& hooks) {
  try {
    std::unique_ptr<HostCache> cache(new HostCache);
    DPI_RETURN_IF_ERROR(cache->build(std::move(tables), options, source, finish, for_rows, hooks));
    return cache;
  } catch (const std::bad_alloc&) {
    return Status(Code::kOutOfMemory, "no memory for the host tier");
  }
}

Status HostCache::build(std::vector<CacheTable> tables, const CacheOptions& options, RowSource* source,
                        FinishRow finish, const MemoryHooks& for_rows, const MemoryHooks& hooks) {
  options_ = options;
  std::vector<TierTable> rows;
  for (const CacheTable& t : tables) {
    const int64_t bytes = row_bytes(t.row);
    if (t.source_bytes < 0 || t.source_bytes > bytes ||
        (!t.default_row.empty() && static_cast<int64_t>(t.default_row.size()) > bytes))
      return internal_error("table '" + t.row.name + "': more bytes than its row of " +
                            std::to_string(bytes));
    rows.push_back(t.row);
  }
  DPI_ASSIGN_OR_RETURN(const ArenaPlan plan,
                       plan_arena(rows, options.budget, options.shards, options.reserved));
  DPI_ASSIGN_OR_RETURN(arena_, Arena::make(plan, for_rows, hooks));
  finish_ = finish;
  source_ = source;
  build_shards();
  build_tables(std::move(tables));
  make_fetcher(source);
  uint64_t fetches = fetcher_->job_bytes();
  for (const auto& shard : shards_) fetches += shard->bytes();
  fetches_held_ = HeldCount(hooks.held, fetches);
  return fetcher_->start();
}

void HostCache::build_shards() {
  const ArenaPlan& plan = arena_.plan();
  lines_ = plan_lines(plan, options_.reserved, options_.device_bytes);
  copied_.resize(plan.classes.size());
  directories_.reserve(plan.classes.size());
  for (size_t c = 0; c < plan.classes.size(); ++c) {
    const auto& size = plan.classes[c];
    const auto shape = directory_shape(size.shards, size.places_per_shard, size.remembered,
                                       static_cast<int64_t>(size.tables.size()), options_.seed);
    // plan_arena refused what has no shape. NOLINTNEXTLINE(bugprone-unchecked-optional-access)
    directories_.emplace_back(*shape, arena_.directory(static_cast<int32_t>(c)));
    auto& of_class = class_shards_.emplace_back();
    if (lines_.classes[c].most_sets > 0 && lines_.any())
      copied_[c] = std::make_unique<CopiedPlaces>(copied_shape(plan, lines_, c, options_.reserved));
    for (int32_t s = 0; s < size.shards; ++s) {
      Shard::Shape shard = shard_shape(size, options_);
      shard.number = static_cast<int32_t>(shards_.size());
      shard.index = s;
      shards_.push_back(std::make_unique<Shard>(shard, &directories_[c], &epochs_, copied_[c].get()));
      of_class.push_back(shards_.back().get());
    }
  }
}

void HostCache::build_tables(std::vector<CacheTable> tables) {
  const ArenaPlan& plan = arena_.plan();
  for (size_t i = 0; i < tables.size(); ++i) {
    Table t;
    t.spec = std::move(tables[i]);
    if (t.spec.source_bytes == 0) t.spec.source_bytes = row_bytes(t.spec.row);
    t.size_class = plan.class_of[i];
    const auto c = static_cast<size_t>(t.size_class);
    t.default_place = arena_.default_place(static_cast<int32_t>(i));
    t.class_places = static_cast<int32_t>(plan.classes[c].places());
    t.directory = &directories_[c];
    t.code = t.directory->table(static_cast<uint32_t>(plan.code_of[i]));
    t.shards = class_shards_[c].data();
    t.store = source_->store_of(static_cast<int32_t>(i));
    if (t.spec.stale) t.sequence = source_->sequence(static_cast<int32_t>(i));
    put_row(static_cast<int32_t>(i), 0, t.spec.default_row, arena_.row(t.size_class, t.default_place));
    tables_.push_back(std::move(t));
  }
  sampled_.resize(tables_.size());
  std::vector<MissPolicy> policies;
  policies.reserve(tables_.size());
  for (const Table& t : tables_) policies.push_back(t.spec.policy);
  first_ = join(std::move(policies));
}

std::shared_ptr<CacheMember> HostCache::join(std::vector<MissPolicy> policies) const {
  auto member = std::make_shared<CacheMember>();
  member->policies = std::move(policies);
  member->policies.resize(tables_.size(), MissPolicy::kExact);
  member->gone.resize(tables_.size());
  member->fetches = std::make_shared<FetchCounts>(tables_.size());
  return member;
}

/// A row that no fetch brings.
void HostCache::put_row(int32_t table, int64_t key, std::span<const std::byte> row, std::byte* to) const {
  if (!row.empty()) std::memcpy(to, row.data(), row.size());
  if (finish_.finish != nullptr) finish_.finish(finish_.context, table, key, to);
}

void HostCache::make_fetcher(RowSource* source) {
  std::vector<Fetcher::Row> rows;
  for (const Table& t : tables_) {
    const int64_t stride = arena_.plan().classes[static_cast<size_t>(t.size_class)].stride;
    rows.push_back({t.spec.row.name, t.spec.source_bytes, stride, t.store});
  }
  health_ = std::make_unique<StoreHealth>(source->stores(), options_.down, options_.log);
  fetcher_ = std::make_unique<Fetcher>(
      options_.fetch, source, std::move(rows), finish_, health_.get(), [this] { idle(); }, kLearnEvery);
}

HostCache::~HostCache() = default;

Result<LinePlan> HostCache::plan_lines_of(const std::vector<TierTable>& tables, const CacheOptions& options) {
  DPI_ASSIGN_OR_RETURN(const ArenaPlan plan,
                       plan_arena(tables, options.budget, options.shards, options.reserved));
  return plan_lines(plan, options.reserved, options.device_bytes);
}

Result<uint64_t> HostCache::bytes(const std::vector<TierTable>& tables, const CacheOptions& options) {
  DPI_ASSIGN_OR_RETURN(const ArenaPlan plan,
                       plan_arena(tables, options.budget, options.shards, options.reserved));
  uint64_t bytes = plan.bytes() + Fetcher::bytes(options.fetch);
  for (const auto& c : plan.classes)
    bytes += static_cast<uint64_t>(c.shards) * Shard::bytes_of_fetches(shard_shape(c, options));
  const LinePlan lines = plan_lines(plan, options.reserved, options.device_bytes);
  for (size_t c = 0; c < plan.classes.size(); ++c) {
    if (lines.classes[c].most_sets > 0 && lines.any())
      bytes += CopiedPlaces::bytes(copied_shape(plan, lines, c, options.reserved));
  }
  return bytes;
}

uint64_t HostCache::reader_bytes(int64_t max_keys) {
  const auto n = static_cast<uint64_t>(max_keys);
  return sizeof(CacheReader) + n * (sizeof(CacheReader::Missed) + sizeof(Miss) + sizeof(int32_t)) +
         std::bit_ceil(2 * n + 2) * sizeof(int32_t);
}

Result<HostCache::Reader> HostCache::make_reader(int64_t max_keys, CacheMember& member) {
  try {
    std::unique_ptr<CacheReader> r = std::make_unique<CacheReader>();
    const auto most = static_cast<size_t>(max_keys);
    r->member = &member;
    r->max_keys = max_keys;
    r->counts.resize(tables_.size());
    r->gained.resize(tables_.size());
    r->missed.reserve(most);
    r->misses.reserve(most);
    r->held.resize(most);
    r->stacks.resize(shards_.size());
    r->wanted.resize(shards_.size());
    r->distinct.resize(std::bit_ceil(2 * most + 2));
    const std::lock_guard<std::mutex> lock(readers_mutex_);
    r->steps = SampleSteps(readers_made_++);
    readers_.reserve(readers_.size() + 1);
    DPI_ASSIGN_OR_RETURN(r->line, epochs_.add_reader());
    readers_.push_back(r.get());
    return Reader(r.release(), Return{this});
  } catch (const std::bad_alloc&) {
    return Status(Code::kOutOfMemory, "no memory for a context's misses");
  }
}

void HostCache::Return::operator()(CacheReader* reader) const {
  cache->release(*reader);
  {
    const std::lock_guard<std::mutex> lock(cache->readers_mutex_);
    std::erase(cache->readers_, reader);
    std::vector<TableCounts>& gone = reader->member->gone;
    for (size_t t = 0; t < gone.size(); ++t) add_counts(reader->counts[t], &gone[t]);
  }
  cache->epochs_.remove_reader(reader->line);
  delete reader;
}

kernels::TableView HostCache::view(int32_t table) const {
  const Table& t = tables_[static_cast<size_t>(table)];
  const auto& size = arena_.plan().classes[static_cast<size_t>(t.size_class)];
  kernels::TableView v;
  v.base = arena_.row(t.size_class, 0);
  v.rows = size.places() + static_cast<int64_t>(size.tables.size());
  v.row_bytes = size.stride;
  v.dim = t.spec.row.dim;
  v.dtype = t.spec.row.dtype;
  if (v.dtype == kernels::DType::kI8) {
    v.scale = reinterpret_cast<const float*>(static_cast<const std::byte*>(v.base) + scale_at(v.dim));
    v.scale_stride = size.stride / static_cast<int64_t>(sizeof(float));
  }
  return v;
}

int32_t HostCache::shard_of(int32_t table, int64_t key) const {
  const Table& t = tables_[static_cast<size_t>(table)];
  return t.shards[t.directory->shard_of(t.directory->hash(t.code, key))]->number();
}

bool HostCache::preload(int32_t table, int64_t key, std::span<const std::byte> row, uint8_t heat) {
  const Table& t = tables_[static_cast<size_t>(table)];
  const uint64_t h = t.directory->hash(t.code, key);
  Shard* const shard = t.shards[t.directory->shard_of(h)];
  if (shard->spare() <= 0) return false;
  const Shard::Claimed claimed = shard->claim({t.code, h, key}, false, nullptr, monotonic_ns());
  if (claimed.what != Shard::Claim::kStarted) return claimed.what == Shard::Claim::kPlace;
  put_row(table, key, row, arena_.row(t.size_class, claimed.place));
  shard->publish(claimed.fetch, true, monotonic_ns(), heat);
  return true;
}

std::vector<WarmKey> HostCache::warm_keys(int32_t table) const {
  const Table& t = tables_[static_cast<size_t>(table)];
  std::vector<WarmKey> keys;
  for (const Shard* shard : class_shards_[static_cast<size_t>(t.size_class)])
    shard->list_warm(t.code.code, &keys);
  return keys;
}

HostCache::Stats HostCache::stats(int32_t table, const CacheMember& member) const {
  Stats s;
  s.fetches = fetcher_->stats(*member.fetches, table);
  const auto t = static_cast<size_t>(table);
  const std::lock_guard<std::mutex> lock(readers_mutex_);
  s.lookups = member.gone[t];
  for (const CacheReader* r : readers_) {
    if (r->member == &member) add_counts(r->counts[t], &s.lookups);
  }
  return s;
}

std::vector<StoreStatus> HostCache::stores() const {
  std::vector<StoreStatus> all;
  for (int32_t s = 0; s < health_->count(); ++s) {
    StoreStatus& status = all.emplace_back(health_->status(s, source_->nodes(s)));
    const Fetcher::QueueStats queue = fetcher_->queue(s);
    status.queued = queue.queued, status.running = queue.running, status.oldest_ns = queue.oldest_ns;
  }
  return all;
}

Shard::Fill HostCache::fill(int32_t size_class) const {
  Shard::Fill all;
  for (const Shard* s : class_shards_[static_cast<size_t>(size_class)]) {
    const Shard::Fill f = s->fill();
    all.linked += f.linked, all.free += f.free, all.waiting += f.waiting;
    all.absent += f.absent, all.in_flight += f.in_flight, all.warm += f.warm;
  }
  return all;
}

void HostCache::idle() {
  learn();
  const uint64_t now = monotonic_ns();
  health_->tell(now);
  follow_updates(now);
  if (now - expired_ns_ < options_.absent_age_ns / 4) return;
  expired_ns_ = now;
  for (const auto& s : shards_) s->expire(now);
}

/// A fetch that began before the update ended may still bring an older row: it is over, or given up, when as
/// long as a fetch may take has passed.
void HostCache::follow_updates(uint64_t now_ns) {
  const bool ask = now_ns - followed_ns_ >= kFollowEvery;
  if (ask) followed_ns_ = now_ns;
  for (size_t i = 0; i < tables_.size(); ++i) {
    Table& t = tables_[i];
    if (!t.spec.stale) continue;
    const int64_t sequence = ask ? source_->sequence(static_cast<int32_t>(i)) : -1;
    if (sequence > t.sequence) {
      t.sequence = sequence;
      t.forget_ns = now_ns + options_.fetch.fetch_ns;
    }
    if (t.forget_ns == 0 || now_ns < t.forget_ns) continue;
    t.forget_ns = 0;
    for (Shard* s : class_shards_[static_cast<size_t>(t.size_class)]) s->forget_table(t.code.code);
  }
}

void HostCache::left(int32_t size_class, std::span<const int32_t> rows) {
  const auto c = static_cast<size_t>(size_class);
  for (const int32_t row : rows) {
    copied_[c]->left(row);
    const int32_t place = copied_[c]->place_of(row);
    class_shards_[c][static_cast<size_t>(place / arena_.plan().classes[c].places_per_shard)]->left(&place, 1);
  }
}

HostCache::Sampled HostCache::sampled(int32_t table) const {
  const std::lock_guard<std::mutex> lock(readers_mutex_);
  return sampled_[static_cast<size_t>(table)];
}

void HostCache::learn() {
  const std::lock_guard<std::mutex> lock(readers_mutex_);
  for (CacheReader* r : readers_) {
    r->samples.drain([this](int32_t table, int32_t place) {
      const Table& t = tables_[static_cast<size_t>(table)];
      const auto c = static_cast<size_t>(t.size_class);
      t.shards[place / arena_.plan().classes[c].places_per_shard]->warm(place);
      if (copied_[c] == nullptr) return;
      Sampled& of_table = sampled_[static_cast<size_t>(table)];
      ++of_table.all;
      of_table.held += copied_[c]->saw(place) ? 1 : 0;
    });
  }
}

}  // namespace dpi::tiered
