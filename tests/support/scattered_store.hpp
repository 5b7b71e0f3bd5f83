// A table store whose tiered tables have no row where a row number would say: each lease gets its rows at
// places that were taken at random, and they turn into NaN when it is given back. It proves that lookups read
// places and nothing else, that padding reads its pinned place, and that a lease lasts until the last op has
// finished.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#include <dpi/kernels/row_decode.hpp>

#include "store/host_tier/row_scalars.hpp"
#include "support/forwarding_store.hpp"

namespace dpi::test {

/// Places of one tiered table, in groups of 64 so that leases share no word of the nonzero bits.
class ScatteredTable {
 public:
  static constexpr int32_t kGroup = 64;

  ScatteredTable(const kernels::TableView& home, const std::vector<PinnedRow>& pinned, int32_t n_pinned,
                 unsigned seed)
      : home_(home), random_(seed) {
    const auto of_call = static_cast<int32_t>((home.rows + kGroup - 1) / kGroup);
    const int32_t reserved = (n_pinned + kGroup - 1) / kGroup, groups = reserved + 8 * of_call;
    const auto places = static_cast<size_t>(groups) * kGroup;
    rows_.assign(places * static_cast<size_t>(home.row_bytes) + 64, std::byte{0xFF});
    scale_.assign(places, std::numeric_limits<float>::quiet_NaN());
    nonzero_.assign(static_cast<size_t>(groups), 0x5555555555555555u);
    for (int32_t g = reserved; g < groups; ++g) free_.push_back(g);
    for (const PinnedRow& p : pinned) {
      put(p.row, p.place);
      pinned_[p.row] = p.place;
    }
  }

  kernels::TableView view() const {
    kernels::TableView v = home_;
    v.base = base();
    v.rows = static_cast<int64_t>(nonzero_.size()) * kGroup;
    if (v.scale != nullptr) {
      v.scale = scale_.data();
      v.scale_stride = 1;
    }
    if (v.nonzero != nullptr) v.nonzero = nonzero_.data();
    return v;
  }

  /// A derived table whose rows are read at this one's places.
  void ride(int32_t table, const kernels::TableView& home) {
    Rider& r = riders_[table];
    r.home = home;
    r.rows.assign(nonzero_.size() * kGroup * static_cast<size_t>(home.dim),
                  std::numeric_limits<float>::quiet_NaN());
    for (const auto& [row, place] : pinned_) r.put(row, place);
  }
  kernels::TableView rider_view(int32_t table) const {
    const Rider& r = riders_.at(table);
    kernels::TableView v = r.home;
    v.base = r.rows.data();
    v.rows = static_cast<int64_t>(nonzero_.size()) * kGroup;
    v.row_bytes = int64_t{v.dim} * 4;
    return v;
  }

  /// The place of a row for a lease that has `places` and `groups` so far; -1 when none is left.
  int32_t place_of(int64_t row, std::map<int64_t, int32_t>* places, std::vector<int32_t>* groups) {
    if (const auto at = pinned_.find(row); at != pinned_.end()) return at->second;
    if (const auto at = places->find(row); at != places->end()) return at->second;
    if (places->size() % kGroup == 0) {
      if (free_.empty()) return -1;
      std::swap(free_[std::uniform_int_distribution<size_t>(0, free_.size() - 1)(random_)], free_.back());
      groups->push_back(free_.back());
      free_.pop_back();
    }
    const int32_t place = groups->back() * kGroup + static_cast<int32_t>(places->size() % kGroup);
    put(row, place);
    return (*places)[row] = place;
  }

  void take_back(const std::vector<int32_t>& groups) {
    for (const int32_t g : groups) {
      const auto bytes = static_cast<size_t>(home_.row_bytes);
      const auto first = static_cast<size_t>(g) * kGroup;
      std::memset(base() + first * bytes, 0xFF, kGroup * bytes);
      std::fill_n(scale_.begin() + static_cast<std::ptrdiff_t>(first), kGroup,
                  std::numeric_limits<float>::quiet_NaN());
      nonzero_[static_cast<size_t>(g)] ^= ~uint64_t{0};
      for (auto& [table, r] : riders_) {
        const auto n = kGroup * static_cast<size_t>(r.home.dim);
        std::fill_n(r.rows.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(g) * n), n,
                    std::numeric_limits<float>::quiet_NaN());
      }
      free_.push_back(g);
    }
  }

 private:
  struct Rider {
    kernels::TableView home;
    std::vector<float> rows;
    void put(int64_t row, int32_t place) {
      const auto dim = static_cast<size_t>(home.dim);
      std::memcpy(rows.data() + static_cast<size_t>(place) * dim,
                  static_cast<const std::byte*>(home.base) + row * home.row_bytes, dim * 4);
    }
  };
  std::byte* base() const {
    auto* p = const_cast<std::byte*>(rows_.data());
    return p + (64 - reinterpret_cast<uintptr_t>(p) % 64) % 64;
  }
  void put(int64_t row, int32_t place) {
    const auto* from = static_cast<const std::byte*>(home_.base) + row * home_.row_bytes;
    const auto bytes = static_cast<size_t>(home_.dim * kernels::dtype_bytes(home_.dtype));
    const auto at = static_cast<size_t>(place);
    std::memcpy(base() + at * static_cast<size_t>(home_.row_bytes), from, bytes);
    if (home_.scale != nullptr) scale_[at] = home_.scale[row * home_.scale_stride];
    for (auto& [table, r] : riders_) r.put(row, place);
    if (home_.nonzero == nullptr) return;
    const uint64_t bit = uint64_t{1} << (at % kGroup);
    const bool set = ((home_.nonzero[row / 64] >> (row % 64)) & 1) != 0;
    nonzero_[at / kGroup] = set ? nonzero_[at / kGroup] | bit : nonzero_[at / kGroup] & ~bit;
  }

  kernels::TableView home_;
  std::mt19937 random_;
  std::vector<std::byte> rows_;
  std::vector<float> scale_;
  std::vector<uint64_t> nonzero_;
  std::vector<int32_t> free_;
  std::map<int64_t, int32_t> pinned_;
  std::map<int32_t, Rider> riders_;
};

struct ScatteredTables {
  std::mutex mutex;
  std::map<int32_t, ScatteredTable> tables;
  std::map<int32_t, int32_t> riders;  // the table at whose places each is read
  std::atomic<int> leases{0};
  bool give_back_early = false;  // a fault to plant: places are taken back when they have been given
};

class ScatteredReader final : public ForwardingReader {
 public:
  ScatteredReader(std::unique_ptr<StoreReader> inner, std::shared_ptr<ScatteredTables> shared)
      : ForwardingReader(std::move(inner)), shared_(std::move(shared)) {}

  Result<Readiness> acquire(const StoreRequest& request) override {
    DPI_ASSIGN_OR_RETURN(const Readiness ready, ForwardingReader::acquire(request));
    const std::lock_guard lock(shared_->mutex);
    for (const StoreRequest::Lookup& l : request.lookups) {
      const auto at = shared_->tables.find(l.table);
      if (at == shared_->tables.end()) continue;
      Held& held = held_[l.table];
      const bool bags = l.ids.offsets != nullptr;
      const int64_t n = bags ? l.ids.offsets[l.ids.rows] : l.ids.rows;
      for (int64_t i = 0; i < n; ++i) {
        const int64_t id = l.ids.ids[bags ? i : i * l.ids.stride];
        const int32_t place = at->second.place_of(id, &held.places, &held.groups);
        if (place < 0) return Status(Code::kOutOfMemory, "scattered store: no place is left");
        l.places[bags ? i : i * l.place_stride] = place;
      }
    }
    leased_ = true;
    ++shared_->leases;
    if (shared_->give_back_early) take_back();
    return ready;
  }

  void release() override {
    if (leased_) {
      const std::lock_guard lock(shared_->mutex);
      take_back();
      --shared_->leases;
    }
    leased_ = false;
    ForwardingReader::release();
  }

  kernels::TableView view(int32_t t) const override {
    if (const auto rider = shared_->riders.find(t); rider != shared_->riders.end())
      return shared_->tables.at(rider->second).rider_view(t);
    const auto at = shared_->tables.find(t);
    return at != shared_->tables.end() ? at->second.view() : ForwardingReader::view(t);
  }

 private:
  struct Held {
    std::map<int64_t, int32_t> places;
    std::vector<int32_t> groups;
  };
  void take_back() {
    for (auto& [t, held] : held_) shared_->tables.at(t).take_back(held.groups);
    held_.clear();
  }

  std::shared_ptr<ScatteredTables> shared_;
  std::map<int32_t, Held> held_;
  bool leased_ = false;
};

class ScatteredStore final : public ForwardingStore {
 public:
  ScatteredStore(std::unique_ptr<TableStore> inner, std::shared_ptr<ScatteredTables> shared)
      : ForwardingStore(std::move(inner)), shared_(std::move(shared)) {}

  Result<StoreForecast> plan(std::vector<StoreTable> tables) override {
    for (StoreTable& t : tables) {
      pinned_.push_back(std::exchange(t.pinned, {}));
      tiered_.push_back(std::exchange(t.tiered, false) && t.columns.empty());
      if (!t.columns.empty()) shared_->riders[static_cast<int32_t>(pinned_.size()) - 1] = t.ride_with;
    }
    tables_ = tables;
    return ForwardingStore::plan(std::move(tables));
  }
  Status ingest(int32_t t, int64_t first, int64_t n, std::span<const std::byte> rows) override {
    DPI_RETURN_IF_ERROR(ForwardingStore::ingest(t, first, n, rows));
    for (const auto& [rider, home] : shared_->riders) {
      if (home == t) DPI_RETURN_IF_ERROR(derive(rider, t, first, n, rows));
    }
    return {};
  }
  Status ingest_scale(int32_t t, std::span<const float> scale) override {
    scale_.assign(scale.begin(), scale.end());
    return ForwardingStore::ingest_scale(t, scale);
  }
  Status seal() override {
    DPI_RETURN_IF_ERROR(ForwardingStore::seal());
    DPI_ASSIGN_OR_RETURN(home_, ForwardingStore::open_reader({}));
    DPI_RETURN_IF_ERROR(home_->acquire({}).status());
    int32_t n_pinned = 0;
    for (const auto& pinned : pinned_) n_pinned += static_cast<int32_t>(pinned.size());
    for (size_t t = 0; t < tiered_.size(); ++t) {
      const auto table = static_cast<int32_t>(t);
      if (tiered_[t])
        shared_->tables.try_emplace(table, home_->view(table), pinned_[t], n_pinned,
                                    17u + static_cast<unsigned>(t));
    }
    for (const auto& [rider, home] : shared_->riders)
      shared_->tables.at(home).ride(rider, home_->view(rider));
    return {};
  }
  Result<std::unique_ptr<StoreReader>> open_reader(const ReaderLimits& limits) override {
    DPI_ASSIGN_OR_RETURN(std::unique_ptr<StoreReader> inner, ForwardingStore::open_reader(limits));
    return std::unique_ptr<StoreReader>(std::make_unique<ScatteredReader>(std::move(inner), shared_));
  }
  bool needs_ids() const override { return false; }

 private:
  /// What the store that has the rows would compute.
  Status derive(int32_t rider, int32_t t, int64_t first, int64_t n, std::span<const std::byte> rows) {
    const StoreTable& home = tables_[static_cast<size_t>(t)];
    RowScalars scalars({home.name, 0, home.dim, home.dtype});
    const auto at = static_cast<size_t>(scalars.add(tables_[static_cast<size_t>(rider)].columns));
    const auto bytes = rows.size() / static_cast<size_t>(n), count = static_cast<size_t>(scalars.count());
    std::vector<std::byte> row(at + count * sizeof(float));
    std::vector<float> derived(static_cast<size_t>(n) * count);
    for (size_t r = 0; r < static_cast<size_t>(n); ++r) {
      std::memcpy(row.data(), rows.data() + r * bytes, bytes);
      if (home.dtype == kernels::DType::kI8)
        std::memcpy(row.data() + tiered::scale_at(home.dim), &scale_[static_cast<size_t>(first) + r],
                    sizeof(float));
      scalars.fill(row.data());
      std::memcpy(derived.data() + r * count, row.data() + at, count * sizeof(float));
    }
    return ForwardingStore::ingest(rider, first, n, std::as_bytes(std::span(derived)));
  }

  std::shared_ptr<ScatteredTables> shared_;
  std::vector<StoreTable> tables_;
  std::vector<float> scale_;  // of the table that comes by
  std::unique_ptr<StoreReader> home_;
  std::vector<std::vector<PinnedRow>> pinned_;
  std::vector<bool> tiered_;
};

}  // namespace dpi::test
