// Ways that are one launch of the fused lookup: only where it finds rows differs.
#include <cstring>

#include "backend/abi/spread.hpp"
#include "kernels/include/dpi/kernels/row_cache.hpp"
#include "tests/gpu/tools/tiers.hpp"
#include "tests/gpu/tools/tiers_managed.hpp"

namespace dpi::gpu {
namespace {

using namespace kernels;

/// The fused lookup over rows at `base`.
class Fused : public Way {
 public:
  Fused(const Device& device, const Tables& tables, const Ids& ids)
      : Way(device, tables, ids), keys_(static_cast<size_t>(ids.per_set()) * 4) {}

  void run(int64_t set) override {
    need(layer::copy_async(keys_.as<void>(), ids_.of(set), static_cast<size_t>(ids_.per_set()) * 4,
                           device_.stream),
         "ids");
    need(layer::event_record(device_.from, device_.stream), "event");
    need(cuda::multi_lookup(args(), options(), device_.stream), "lookup");
    need(layer::event_record(device_.to, device_.stream), "event");
    need(layer::stream_synchronize(device_.stream), "lookup");
  }
  double device_us() override {
    float ms = 0;
    need(layer::event_elapsed(device_.from, device_.to, &ms), "time");
    return ms * 1e3;
  }

 protected:
  void read_at(const void* base, const RowCache* cache = nullptr) {
    for (int32_t f = 0; f < tables_.fields(); ++f) {
      TableView t;
      t.base = base;
      t.rows = tables_.total;
      t.row_bytes = tables_.row_bytes();
      t.dim = tables_.dim;
      t.cache = cache;
      views_.push_back(t);
      fields_.push_back({{}, f, f, f * tables_.dim, false});
      Operand keys;
      keys.bags = {keys_.as<int32_t>() + f * ids_.batch, nullptr, nullptr, 1, ids_.batch};
      inputs_.push_back(keys);
    }
    scratch_ = std::make_unique<Memory>(cuda::lookup_scratch_bytes(args().attrs, ids_.batch, {}));
  }

 private:
  MultiLookupArgs args() const {
    MultiLookupArgs a;
    a.attrs.fields = fields_.data();
    a.attrs.n_fields = tables_.fields();
    a.inputs = inputs_.data();
    a.tables = views_.data();
    a.rows = ids_.batch;
    a.out.data = out_.as<float>();
    a.out.rows = ids_.batch;
    a.out.row_stride = columns_;
    return a;
  }
  cuda::LookupOptions options() const {
    cuda::LookupOptions o;
    o.device = device_.size;
    o.scratch = scratch_->as<void>();
    o.scratch_bytes = cuda::lookup_scratch_bytes(args().attrs, ids_.batch, {});
    return o;
  }

  Memory keys_;
  std::unique_ptr<Memory> scratch_;
  std::vector<TableView> views_;
  std::vector<LookupField> fields_;
  std::vector<Operand> inputs_;
};

/// All rows in device memory.
class Resident : public Fused {
 public:
  Resident(const Device& device, const Tables& tables, const Ids& ids)
      : Fused(device, tables, ids), rows_(tables.bytes()) {
    need(layer::copy_now(rows_.as<void>(), tables.row(0), tables.bytes()), "tables");
    read_at(rows_.as<void>());
  }
  double hits(int64_t) override { return 1; }

 private:
  Memory rows_;
};

/// All rows in host memory, which the kernel reads.
class Mapped : public Fused {
 public:
  Mapped(const Device& device, const Tables& tables, const Ids& ids) : Fused(device, tables, ids) {
    read_at(tables.row(0));
  }
  double hits(int64_t) override { return 0; }
};

/// That, with copies of the hottest rows that go into the budget, tags included. Nothing replaces them here.
class Cached : public Fused {
 public:
  Cached(int64_t budget, const Device& device, const Tables& tables, const Ids& ids)
      : Fused(device, tables, ids), sets_(budget / (kCacheWays * (tables.row_bytes() + 4))) {
    if (sets_ < 1) throw std::invalid_argument("the budget is less than one set");
    const size_t lines = static_cast<size_t>(sets_) * kCacheWays;
    tags_.assign(lines, 0);
    rows_ = std::make_unique<Memory>(lines * static_cast<size_t>(tables.row_bytes()));
    fill();
    on_device_ = std::make_unique<Memory>(lines * 4 + sizeof(RowCache));
    need(layer::copy_now(on_device_->as<void>(), tags_.data(), lines * 4), "tags");
    RowCache c;
    c.tags = on_device_->as<uint32_t>();
    c.sets = static_cast<uint32_t>(sets_);
    c.delta = reinterpret_cast<uintptr_t>(rows_->as<char>()) - reinterpret_cast<uintptr_t>(tables.row(0));
    char* const at = on_device_->as<char>() + lines * 4;
    need(layer::copy_now(at, &c, sizeof c), "cache");
    read_at(tables.row(0), reinterpret_cast<const RowCache*>(at));
  }
  double hits(int64_t set) override {
    int64_t found = 0;
    for (int64_t i = 0; i < ids_.per_set(); ++i) found += copied(ids_.of(set)[i]) ? 1 : 0;
    return static_cast<double>(found) / static_cast<double>(ids_.per_set());
  }
  bool copied(int64_t row) override { return find(row, static_cast<uint32_t>(row) + 1) != nullptr; }

 private:
  /// The tag that is `tag` in a row's set, or null.
  uint32_t* find(int64_t row, uint32_t tag) {
    uint32_t* const first =
        tags_.data() +
        size_t{cache_set(static_cast<uint32_t>(row), static_cast<uint32_t>(sets_))} * kCacheWays;
    uint32_t* const at = std::find(first, first + kCacheWays, tag);
    return at != first + kCacheWays ? at : nullptr;
  }
  void fill() {
    const auto dim = static_cast<size_t>(tables_.dim);
    std::vector<float> lines(tags_.size() * dim);
    size_t left = tags_.size();
    tables_.hottest_first([&](size_t, int64_t row) {
      if (uint32_t* const tag = find(row, 0); tag != nullptr) {
        *tag = static_cast<uint32_t>(row) + 1;
        const auto* const from = reinterpret_cast<const float*>(tables_.row(row));
        float* const to = lines.data() + static_cast<size_t>(tag - tags_.data()) * dim;
        std::transform(from, from + dim, to, [](float v) { return -v; });
        --left;
      }
      return left > 0;
    });
    need(layer::copy_now(rows_->as<void>(), lines.data(), lines.size() * 4), "lines");
  }

  int64_t sets_;
  std::vector<uint32_t> tags_;
  std::unique_ptr<Memory> rows_, on_device_;
};

/// Pages that the driver moves, with no more device memory for them than the budget: the rest is taken.
class Managed : public Fused {
 public:
  Managed(int64_t budget, const Device& device, const Tables& tables, const Ids& ids)
      : Fused(device, tables, ids), rows_(tables.bytes(), Memory::kManaged) {
    std::memcpy(rows_.as<void>(), tables.row(0), tables.bytes());
    read_at(rows_.as<void>());
    if (!managed_moves()) return;
    layer::Properties now;
    need(layer::properties(0, &now), "memory");
    if (now.memory_free > static_cast<uint64_t>(budget))
      taken_ = std::make_unique<Memory>(now.memory_free - static_cast<uint64_t>(budget));
  }

 private:
  Memory rows_;
  std::unique_ptr<Memory> taken_;
};

/// One range of addresses over several allocations, as option store.peer_devices makes it.
class Peers : public Fused {
 public:
  Peers(int32_t shares, const Device& device, const Tables& tables, const Ids& ids)
      : Fused(device, tables, ids), spread_(tables.bytes(), granularity(), static_cast<uint64_t>(shares)) {
    need(layer::range_reserve(spread_.bytes, &base_), "addresses");
    const int here = 0;
    for (; made_ < spread_.pieces(); ++made_)
      need(layer::piece_make(at(made_), spread_.bytes_of(made_), here), "piece");
    need(layer::range_access(base_, spread_.bytes, &here, 1), "access");
    for (uint64_t p = 0; p < made_; ++p) {
      const uint64_t from = spread_.offset(p);
      if (from < tables.bytes())
        need(layer::copy_now(at(p), tables.row(0) + from,
                             std::min<size_t>(spread_.bytes_of(p), tables.bytes() - from)),
             "tables");
    }
    read_at(base_);
  }
  ~Peers() override {
    for (uint64_t p = 0; p < made_; ++p) layer::piece_drop(at(p), spread_.bytes_of(p));
    if (base_ != nullptr) layer::range_free(base_, spread_.bytes);
  }
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;
  double hits(int64_t) override { return 1; }

 private:
  static uint64_t granularity() {
    size_t bytes = 0;
    need(layer::piece_granularity(0, &bytes), "granularity");
    return std::max<uint64_t>(bytes, backend::Spread::kGranularity);
  }
  char* at(uint64_t piece) const { return static_cast<char*>(base_) + spread_.offset(piece); }

  backend::Spread spread_;
  void* base_ = nullptr;
  uint64_t made_ = 0;
};

}  // namespace

std::unique_ptr<Way> make_way(const WayOptions& o, const Device& d, const Tables& t, const Ids& ids) {
  if (o.name == "resident") return std::make_unique<Resident>(d, t, ids);
  if (o.name == "mapped") return std::make_unique<Mapped>(d, t, ids);
  if (o.name == "cached") return std::make_unique<Cached>(o.budget, d, t, ids);
  if (o.name == "uvm") return std::make_unique<Managed>(o.budget, d, t, ids);
  if (o.name == "peers") return std::make_unique<Peers>(o.shares, d, t, ids);
  if (o.name == "chain") return make_chain(o.budget, d, t, ids);
  throw std::invalid_argument("no way is called '" + o.name + "'");
}

}  // namespace dpi::gpu
