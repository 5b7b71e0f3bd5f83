#include "store/host_tier/tiered_store.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/clock.hpp"
#include "store/host_tier/default_row.hpp"
#include "store/host_tier/row_scalars.hpp"
#include "store/host_tier/tier_sizes.hpp"
#include "store/tiered/prefill.hpp"

namespace dpi {

namespace {

using tiered::CacheLookup;
using tiered::HostCache;

class TieredStore;

class TieredReader final : public StoreReader {
 public:
  TieredReader(const TieredStore& store, std::unique_ptr<StoreReader> plain, HostCache::Reader reader,
               const ReaderLimits& limits);
  Result<Readiness> acquire(const StoreRequest& request) override;
  void release() override;
  kernels::TableView view(int32_t table) const override;
  uint64_t addresses() const override { return plain_->addresses(); }
  uint64_t misses() const override {
    uint64_t n = 0;
    for (const tiered::TableCounts& c : reader_->counts) n += c.late + c.defaulted + c.down;
    return n;
  }
  uint64_t bytes() const override {
    return reader_->bytes() + keys_.capacity() * sizeof(int64_t) + places_.capacity() * sizeof(int32_t);
  }

 private:
  struct Asked;
  template <class Each>  // (i, Asked) of ids i of a lookup
  void each_asked(const StoreRequest::Lookup& l, int64_t n, Each&& each) const;
  int64_t take_keys(const StoreRequest::Lookup& l, int64_t n, int64_t* keys) const;
  void give_places(const StoreRequest::Lookup& l, int64_t n, const int32_t* places) const;
  Status in_request(Status s, const StoreRequest& request) const;

  const TieredStore& store_;
  std::unique_ptr<StoreReader> plain_;
  HostCache::Reader reader_;
  std::vector<int64_t> keys_;  // of a request, lookup by lookup
  std::vector<int32_t> places_;
  std::vector<CacheLookup> lookups_;
};

class TieredStore final : public TableStore, public ForwardingHandover {
 public:
  TieredStore(std::unique_ptr<TableStore> plain, std::unique_ptr<BundleRows> rows, TierOptions options,
              const dpi_backend_api* api, dpi_backend_device* device, bool on_device,
              const MemoryHooks& hooks, std::unique_ptr<HotKeyFile> hot, TierSharing sharing)
      : ForwardingHandover(plain->handover()),
        plain_(std::move(plain)),
        options_(std::move(options)),
        on_device_(on_device),
        hooks_(hooks),
        own_(std::make_shared<SharedTier>(api, device, sharing.owner)),
        hot_(std::move(hot)),
        sharing_(std::move(sharing)) {
    own_->rows = std::move(rows);
    given_ = sharing_.claim.given();
    may_share_ = sharing_.claim.on();
  }

  Result<StoreForecast> plan(std::vector<StoreTable> tables) override;
  Status ingest(int32_t table, int64_t first, int64_t n, std::span<const std::byte> rows) override;
  std::span<std::byte> room(int32_t table) override {
    return tier(table) == nullptr ? plain_->room(table) : std::span<std::byte>();
  }
  Status ingest_scale(int32_t table, std::span<const float> scale) override;
  Status seal() override;
  Result<std::unique_ptr<StoreReader>> open_reader(const ReaderLimits& limits) override;
  TableHandover& handover() override { return *this; }
  bool needs_ids() const override { return plain_->needs_ids(); }
  std::optional<TierStats> tier_stats(int32_t table) const override;
  std::vector<StoreStatus> stores() const override;
  std::optional<PeerStats> peer_stats(int32_t table) const override { return plain_->peer_stats(table); }
  TableShare share(int32_t table) const override {
    if (tier(table) == nullptr) return inner().share(table);
    return {may_share_ && tier_ != nullptr ? tier_.use_count() : 0};
  }
  bool has_rows(int32_t table) const override {
    return tables_[static_cast<size_t>(table)].spec.tiered ? same_tier_ : inner().has_rows(table);
  }
  HeldRows holds(int32_t table) const override {
    if (!tables_[static_cast<size_t>(table)].spec.tiered) return inner().holds(table);
    HeldRows held;
    if (may_share_) held.memory = tier_;
    return held;
  }

 private:
  friend class TieredReader;
  struct Tiered {
    StoreTable spec;
    int32_t in_cache = -1;
    int64_t rides_at = -1;  // derived: where in a row of spec.ride_with
    int64_t ingested = 0;
    std::vector<float> scale;  // until seal
  };
  const Tiered* tier(int32_t table) const {
    const Tiered& t = tables_[static_cast<size_t>(table)];
    return t.in_cache >= 0 ? &t : nullptr;
  }
  /// After seal; while loading of the tier that the model makes.
  tiered::HostCache& cache() const { return *(tier_ != nullptr ? tier_ : own_)->cache; }
  const BundleTable& rows_of(const Tiered& t) const {
    return (tier_ != nullptr ? tier_ : own_)->rows->table(t.in_cache);
  }
  Status make_cache();
  void plan_scalars();
  tiered::FinishRow finish_row() const;
  void describe_to_prefill();
  Status fill_own();
  Status pin_rows(const Tiered& t);

  std::unique_ptr<TableStore> plain_;
  const TierOptions options_;
  const bool on_device_;
  const MemoryHooks hooks_;
  std::vector<Tiered> tables_;
  int32_t reserved_ = 0;
  std::shared_ptr<SharedTier> tier_;  // after seal: own_ or given_
  std::shared_ptr<tiered::CacheMember> member_;
  bool may_share_ = false;
  bool same_tier_ = false;              // given, and known to hold these rows
  std::shared_ptr<SharedTier> own_;     // this and what follows until seal
  std::shared_ptr<SharedTier> given_;   // of another model whose rows have been equal so far, or null
  std::shared_ptr<SharedTier> before_;  // of the version before, or null
  std::unique_ptr<HotKeyFile> hot_;     // may be null
  std::unique_ptr<tiered::Prefill> prefill_;
  std::vector<std::byte> whole_;  // rows of i8 with their scales
  TierSharing sharing_;
  uint64_t tier_bytes_ = 0;
};

Result<StoreForecast> TieredStore::plan(std::vector<StoreTable> tables) {
  reserved_ = reserved_places(tables);
  DPI_ASSIGN_OR_RETURN(const uint64_t bytes, tier_bytes(tables, options_));
  tables_.clear();
  int32_t n = 0;
  for (const StoreTable& t : tables) {
    if (t.tiered && t.needs_nonzero)
      return internal_error("table '" + t.name + "' is tiered, and a mask asks for its rows");
    tables_.push_back({t, t.tiered && t.columns.empty() ? n++ : -1, -1, 0, {}});
    tables_.back().spec.same = tables_.back().spec.before = {};
    tables_.back().spec.version = {};
  }
  before_ = tier_before(tables);
  same_tier_ = given_ != nullptr && std::all_of(tables.begin(), tables.end(), [this](const StoreTable& t) {
                 return !t.tiered || t.same.memory == given_;
               });
  plan_scalars();
  for (StoreTable& t : tables) {
    if (!t.tiered) continue;
    t.tiered = false;
    t.rows = 0;
    t.dtype = kernels::DType::kF32;
    t.pinned.clear();
  }
  DPI_ASSIGN_OR_RETURN(StoreForecast f, plain_->plan(std::move(tables)));
  tier_bytes_ = bytes;
  f.host_bytes += given_ != nullptr ? 0 : bytes;
  return f;
}

void TieredStore::plan_scalars() {
  std::vector<RowScalars>& scalars = own_->scalars;
  scalars.clear();
  for (const Tiered& t : tables_) {
    if (t.in_cache >= 0) scalars.emplace_back(tiered::TierTable{t.spec.name, 0, t.spec.dim, t.spec.dtype});
  }
  for (Tiered& t : tables_) {
    if (!t.spec.tiered || t.in_cache >= 0) continue;
    const Tiered& home = tables_[static_cast<size_t>(t.spec.ride_with)];
    t.rides_at = scalars[static_cast<size_t>(home.in_cache)].add(t.spec.columns);
  }
}

/// Finishes rows of the tier, which may outlive this store.
tiered::FinishRow TieredStore::finish_row() const {
  const auto none = [](const RowScalars& s) { return s.count() == 0; };
  if (std::all_of(own_->scalars.begin(), own_->scalars.end(), none)) return {};
  return {[](void* tier, int32_t table, int64_t, std::byte* row) {
            static_cast<const SharedTier*>(tier)->scalars[static_cast<size_t>(table)].fill(row);
          },
          own_.get()};
}

/// Nothing while another model's tier may do.
Status TieredStore::make_cache() {
  if (given_ != nullptr || own_->cache != nullptr) return {};
  std::vector<tiered::CacheTable> tables;
  for (const Tiered& t : tables_) {
    if (t.in_cache < 0) continue;
    tiered::CacheTable c;
    const int32_t scalars = own_->scalars[static_cast<size_t>(t.in_cache)].count();
    c.row = {t.spec.name, t.spec.rows, t.spec.dim, t.spec.dtype, t.spec.any_key, scalars};
    const TierOptions::Table* o = options_.find(t.spec.name);
    c.default_row = default_row(c.row, rows_of(t), o != nullptr ? o->fill : 0.0f);
    c.stale = o != nullptr && o->stale;
    tables.push_back(std::move(c));
  }
  tiered::CacheOptions options = cache_options(options_, reserved_);
  options.log = sharing_.log;
  DPI_ASSIGN_OR_RETURN(own_->cache,
                       HostCache::make(std::move(tables), options, own_->rows.get(), finish_row(),
                                       on_device_ ? own_->pinned.hooks() : hooks_, hooks_));
  describe_to_prefill();
  if (before_ != nullptr) prefill_->choose(*before_->cache);
  return hot_ != nullptr && before_ == nullptr ? prefill_->choose(*hot_) : Status();
}

void TieredStore::describe_to_prefill() {
  std::vector<tiered::Prefill::Table> tables;
  for (const Tiered& t : tables_) {
    if (t.in_cache < 0) continue;
    const BundleTable& b = rows_of(t);
    tables.push_back({t.spec.name, b.elsewhere < 0 ? t.spec.rows : 0, {}});
    for (const PinnedRow& p : t.spec.pinned) {
      const std::optional<int64_t> key = b.keyed ? b.keyed->key_of(p.row) : p.row;
      if (key) tables.back().elsewhere.push_back(*key);
    }
  }
  prefill_ = std::make_unique<tiered::Prefill>(own_->cache.get(), std::move(tables));
}

Status TieredStore::ingest(int32_t table, int64_t first, int64_t n, std::span<const std::byte> rows) {
  if (tier(table) == nullptr) return plain_->ingest(table, first, n, rows);
  if (!sharing_.claim.given()) DPI_RETURN_IF_ERROR(make_cache());
  Tiered& t = tables_[static_cast<size_t>(table)];
  if (first != t.ingested || n < 0 || n > t.spec.rows - first)
    return internal_error("table '" + t.spec.name + "': rows came out of order");
  t.ingested += n;
  sharing_.claim.alive();
  std::span<const std::byte> whole = rows;
  if (t.spec.dtype == kernels::DType::kI8) {
    const auto scales = std::span(t.scale).subspan(static_cast<size_t>(first), static_cast<size_t>(n));
    join_scales(t.spec.dim, rows, scales, &whole_);
    whole = whole_;
  }
  const auto row_bytes = n > 0 ? whole.size() / static_cast<size_t>(n) : 0;
  const int64_t in_file = std::clamp<int64_t>(rows_of(t).rows - first, 0, n);
  own_->rows->add_rows(t.in_cache, whole.subspan(static_cast<size_t>(in_file) * row_bytes));
  if (given_ != nullptr) {
    DPI_ASSIGN_OR_RETURN(const bool same,
                         sharing_.same_rows(*given_, t.in_cache, first, n, whole, tier_bytes_));
    if (!same) given_ = nullptr;
  }
  if (prefill_ == nullptr) return {};  // a tier was given until a row differed
  for (int64_t r = 0; r < n; ++r)
    prefill_->offer(t.in_cache, first + r, whole.subspan(static_cast<size_t>(r) * row_bytes, row_bytes));
  return {};
}

Status TieredStore::ingest_scale(int32_t table, std::span<const float> scale) {
  if (tier(table) == nullptr) return plain_->ingest_scale(table, scale);
  tables_[static_cast<size_t>(table)].scale.assign(scale.begin(), scale.end());
  return {};
}

/// Reads the rows that stand for padding to their places.
Status TieredStore::pin_rows(const Tiered& t) {
  const kernels::TableView v = cache().view(t.in_cache);
  const std::optional<BundleTable::Keyed>& keyed = rows_of(t).keyed;
  for (const PinnedRow& p : t.spec.pinned) {
    auto* row = static_cast<std::byte*>(const_cast<void*>(v.base)) + (p.place - reserved_) * v.row_bytes;
    const std::optional<int64_t> key = keyed ? keyed->key_of(p.row) : p.row;
    uint64_t found = 0;
    if (key) {
      Status got = own_->rows->fetch({t.in_cache, {&*key, 1}, &row, &found, 0});
      if (!got.ok()) return std::move(got).within("table '" + t.spec.name + "'");
    }
    if (found != 0) {
      own_->scalars[static_cast<size_t>(t.in_cache)].fill(row);
      continue;
    }
    if (!keyed)
      return internal_error("table '" + t.spec.name + "' has no row " + std::to_string(p.row) + " to pin");
    const std::byte* const absent =
        static_cast<const std::byte*>(v.base) + cache().default_place(t.in_cache) * v.row_bytes;
    std::copy_n(absent, v.row_bytes, row);
  }
  return {};
}

/// The rows that a tier of the model's own begins with, but for those that came by.
Status TieredStore::fill_own() {
  DPI_RETURN_IF_ERROR(make_cache());
  for (const Tiered& t : tables_) {
    if (t.in_cache < 0) continue;
    DPI_RETURN_IF_ERROR(pin_rows(t));
    DPI_RETURN_IF_ERROR(prefill_->fetch_rest(t.in_cache, *own_->rows));
  }
  return {};
}

Status TieredStore::seal() {
  std::vector<tiered::MissPolicy> policies;
  for (Tiered& t : tables_) {
    if (t.in_cache < 0) continue;
    if (!same_tier_ && t.ingested != t.spec.rows && rows_of(t).elsewhere < 0)
      return internal_error("table '" + t.spec.name + "': " + std::to_string(t.ingested) + " of " +
                            std::to_string(t.spec.rows) + " rows came");
    const TierOptions::Table* o = options_.find(t.spec.name);
    policies.push_back(o != nullptr ? o->miss : tiered::MissPolicy::kExact);
    std::vector<float>().swap(t.scale);
  }
  if (given_ == nullptr) DPI_RETURN_IF_ERROR(fill_own());
  if (given_ == nullptr) DPI_RETURN_IF_ERROR(own_->copy_to_device(before_.get()));
  DPI_RETURN_IF_ERROR(plain_->seal());
  std::vector<std::byte>().swap(whole_);
  prefill_.reset();
  hot_.reset();
  tier_ = given_ != nullptr ? given_ : own_;
  member_ = tier_->cache->join(std::move(policies));
  if (given_ == nullptr) sharing_.claim.publish(tier_);
  given_.reset();
  own_.reset();
  before_.reset();
  sharing_ = {};  // with its references
  return {};
}

std::optional<TierStats> TieredStore::tier_stats(int32_t table) const {
  const Tiered* t = tier(table);
  if (t == nullptr || tier_ == nullptr) return {};
  return tier_->stats(t->in_cache, *member_);
}

std::vector<StoreStatus> TieredStore::stores() const {
  return tier_ != nullptr ? tier_->cache->stores() : std::vector<StoreStatus>();
}

Result<std::unique_ptr<StoreReader>> TieredStore::open_reader(const ReaderLimits& limits) {
  DPI_ASSIGN_OR_RETURN(std::unique_ptr<StoreReader> plain, plain_->open_reader(limits));
  DPI_ASSIGN_OR_RETURN(HostCache::Reader reader, cache().make_reader(limits.ids, *member_));
  return std::unique_ptr<StoreReader>(
      std::make_unique<TieredReader>(*this, std::move(plain), std::move(reader), limits));
}

TieredReader::TieredReader(const TieredStore& store, std::unique_ptr<StoreReader> plain,
                           HostCache::Reader reader, const ReaderLimits& limits)
    : store_(store),
      plain_(std::move(plain)),
      reader_(std::move(reader)),
      keys_(static_cast<size_t>(limits.ids)),
      places_(static_cast<size_t>(limits.ids)),
      lookups_(static_cast<size_t>(limits.lookups)) {}

int64_t ids_of(const kernels::Bags& ids) { return ids.offsets != nullptr ? ids.offsets[ids.rows] : ids.rows; }

int64_t id_stride(const StoreRequest::Lookup& l) { return l.ids.offsets != nullptr ? 1 : l.ids.stride; }

/// The place that a row has of its own, or -1.
int32_t own_place(const std::vector<PinnedRow>& pinned, int64_t row) {
  for (const PinnedRow& p : pinned) {
    if (p.row == row) return p.place;
  }
  return -1;
}

/// An id as the cache sees it: a key; or its row has a place of its own, and the cache is not asked.
struct TieredReader::Asked {
  int64_t key = 0;
  int32_t own = -1;
};

template <class Each>
void TieredReader::each_asked(const StoreRequest::Lookup& l, int64_t n, Each&& each) const {
  const TieredStore::Tiered& t = *store_.tier(l.table);
  const int64_t stride = id_stride(l);
  const auto asked = [&](int64_t id) -> Asked {
    if (const int32_t own = own_place(t.spec.pinned, id); own >= 0) return {0, own};
    if (l.raw_keys == nullptr) return {id, -1};
    const BundleTable::Keyed& keyed = *store_.rows_of(t).keyed;
    if (id < keyed.absent) return {l.raw_keys[id], -1};
    if (const std::optional<int64_t> key = keyed.key_of(id)) return {*key, -1};
    return {0, store_.cache().default_place(t.in_cache) + store_.reserved_};
  };
  for (int64_t i = 0; i < n; ++i) each(i, asked(l.ids.ids[i * stride]));
}

/// How many keys the cache is asked for.
int64_t TieredReader::take_keys(const StoreRequest::Lookup& l, int64_t n, int64_t* keys) const {
  int64_t taken = 0;
  each_asked(l, n, [&](int64_t, const Asked& a) {
    if (a.own < 0) keys[taken++] = a.key;
  });
  return taken;
}

/// places: of what take_keys took. The ids may lie where the places go.
void TieredReader::give_places(const StoreRequest::Lookup& l, int64_t n, const int32_t* places) const {
  const int64_t to = l.ids.offsets != nullptr ? 1 : l.place_stride;
  int64_t given = 0;
  each_asked(l, n, [&](int64_t i, const Asked& a) {
    l.places[i * to] = a.own >= 0 ? a.own : places[given++] + store_.reserved_;
  });
}

/// A status of the cache about one of its keys, as one about the request's lookup and id.
Status TieredReader::in_request(Status s, const StoreRequest& request) const {
  if (s.row() < 0) return s;
  const CacheLookup& c = lookups_[static_cast<size_t>(s.feature())];
  const int64_t key = c.keys[s.row()];
  int64_t lookup = 0, at = -1;
  for (int64_t tiered = s.feature();; ++lookup) {
    if (store_.tier(request.lookups[static_cast<size_t>(lookup)].table) != nullptr && tiered-- == 0) break;
  }
  const StoreRequest::Lookup& l = request.lookups[static_cast<size_t>(lookup)];
  each_asked(l, ids_of(l.ids), [&](int64_t i, const Asked& a) {
    if (at < 0 && a.own < 0 && a.key == key) at = i;
  });
  return std::move(s).at(at, lookup);
}

Result<Readiness> TieredReader::acquire(const StoreRequest& request) {
  DPI_ASSIGN_OR_RETURN(const Readiness plain, plain_->acquire(request));
  if (plain != Readiness::kReady) return plain;
  int64_t at = 0;
  size_t n_lookups = 0;
  for (const StoreRequest::Lookup& l : request.lookups) {
    const TieredStore::Tiered* t = store_.tier(l.table);
    if (t == nullptr) continue;
    const int64_t n = ids_of(l.ids);
    if (n > static_cast<int64_t>(keys_.size()) - at || n_lookups == lookups_.size()) {
      plain_->release();
      return internal_error("a request of more ids than its reader was opened for");
    }
    const int64_t asked = take_keys(l, n, keys_.data() + at);
    lookups_[n_lookups++] = {t->in_cache, keys_.data() + at, asked, places_.data() + at};
    at += asked;
  }
  Status found = store_.cache().acquire(*reader_, {lookups_.data(), n_lookups}, request.deadline_ns,
                                        request.may_wait, request.cancel, request.row_wait);
  if (!found.ok()) {
    plain_->release();
    return in_request(std::move(found), request);
  }
  n_lookups = 0;
  for (const StoreRequest::Lookup& l : request.lookups) {
    if (store_.tier(l.table) == nullptr) continue;
    give_places(l, ids_of(l.ids), lookups_[n_lookups++].places);
  }
  return Readiness::kReady;
}

void TieredReader::release() {
  store_.cache().release(*reader_);
  plain_->release();
}

kernels::TableView TieredReader::view(int32_t table) const {
  if (const TieredStore::Tiered& rider = store_.tables_[static_cast<size_t>(table)]; rider.rides_at >= 0) {
    kernels::TableView v = view(rider.spec.ride_with);
    v.base = static_cast<const std::byte*>(v.base) + rider.rides_at;
    v.dim = rider.spec.dim;
    v.dtype = kernels::DType::kF32;
    v.scale = nullptr;
    return v;
  }
  const TieredStore::Tiered* t = store_.tier(table);
  if (t == nullptr) return plain_->view(table);
  kernels::TableView v = store_.cache().view(t->in_cache);
  if (const auto& copies = store_.tier_->copies; copies != nullptr)
    v.cache = copies->cache(store_.cache().size_class(t->in_cache));
  const int64_t before = store_.reserved_ * v.row_bytes;
  v.base = static_cast<const std::byte*>(v.base) - before;
  v.rows += store_.reserved_;
  if (v.scale != nullptr) v.scale -= store_.reserved_ * v.scale_stride;
  return v;
}

}  // namespace

Result<std::unique_ptr<TableStore>> make_tiered_store(std::unique_ptr<TableStore> plain,
                                                      std::unique_ptr<BundleRows> rows,
                                                      const TierOptions& options, const dpi_backend_api* api,
                                                      dpi_backend_device* device, const MemoryHooks& hooks,
                                                      std::unique_ptr<HotKeyFile> hot, TierSharing sharing) {
  DPI_ASSIGN_OR_RETURN(const bool on_device, reads_host_rows(*api, device, options));
  return std::unique_ptr<TableStore>(std::make_unique<TieredStore>(std::move(plain), std::move(rows), options,
                                                                   api, device, on_device, hooks,
                                                                   std::move(hot), std::move(sharing)));
}

}  // namespace dpi
