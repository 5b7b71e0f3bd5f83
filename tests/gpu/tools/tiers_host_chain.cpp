// The host's part of the unfused chain (tiers_chain.hpp): table after table, five waits for the device where
// rows are missing, three where none is. Kinder to it than what it stands for: no lock per set, as there is
// one stream; no hash table between host memory and rows; the cache begins with the hottest rows.
#include <cstring>

#include "tests/gpu/tools/tiers.hpp"
#include "tests/gpu/tools/tiers_chain.hpp"

namespace dpi::gpu {
namespace {

constexpr int64_t kFillAtOnce = 1 << 14;

int64_t power_of_two(int64_t n) {
  int64_t p = 1;
  while (p < n) p *= 2;
  return p;
}

class Chain : public Way {
 public:
  Chain(int64_t budget, const Device& device, const Tables& tables, const Ids& ids);
  void run(int64_t set) override;
  double hits(int64_t) override {
    return asked_ > 0 ? 1 - static_cast<double>(missed_) / static_cast<double>(asked_) : -1;
  }

 private:
  struct Cache {
    chain::Cache c;
    Memory keys, stamps, rows;
    Cache(int64_t sets, int32_t vectors);
  };
  int32_t vectors() const { return tables_.dim / 4; }
  void prefill(size_t table);
  void one_table(size_t table, const int32_t* keys, float4* out);
  void bring(const Cache& cache, int32_t n);
  void wait() const { need(layer::stream_synchronize(device_.stream), "wait"); }
  void to_host(void* to, const void* from, size_t bytes) const {
    need(layer::copy_async(to, from, bytes, device_.stream), "copy to the host");
    wait();
  }

  int64_t most_;  // keys at once: of a batch, or of the filling
  Memory keys_, slot_keys_, slot_index_, slot_of_, unique_, miss_keys_, miss_at_, rows_, brought_, counts_;
  Memory host_counts_, host_missing_, host_rows_;  // pinned
  chain::Work work_;
  std::vector<std::unique_ptr<Cache>> caches_;
  int32_t stamp_ = 0;
  int64_t asked_ = 0, missed_ = 0;  // in the last run: unique keys
};

Chain::Cache::Cache(int64_t sets, int32_t vectors)
    : keys(static_cast<size_t>(sets * chain::kWays) * 4),
      stamps(static_cast<size_t>(sets * chain::kWays) * 4),
      rows(static_cast<size_t>(sets * chain::kWays * vectors) * 16) {
  const std::vector<int32_t> none(static_cast<size_t>(sets * chain::kWays), -1);
  need(layer::copy_now(keys.as<void>(), none.data(), none.size() * 4), "keys");
  need(layer::copy_now(stamps.as<void>(), none.data(), none.size() * 4), "stamps");
  c = {keys.as<int32_t>(), stamps.as<int32_t>(), rows.as<float4>(), static_cast<int32_t>(sets), vectors};
}

Chain::Chain(int64_t budget, const Device& device, const Tables& tables, const Ids& ids)
    : Way(device, tables, ids),
      most_(std::max(ids.batch, kFillAtOnce)),
      keys_(static_cast<size_t>(most_) * 4),
      slot_keys_(static_cast<size_t>(power_of_two(2 * ids.batch)) * 4),
      slot_index_(static_cast<size_t>(power_of_two(2 * ids.batch)) * 4),
      slot_of_(static_cast<size_t>(most_) * 4),
      unique_(static_cast<size_t>(most_) * 4),
      miss_keys_(static_cast<size_t>(most_) * 4),
      miss_at_(static_cast<size_t>(most_) * 4),
      rows_(static_cast<size_t>(most_ * tables.row_bytes())),
      brought_(static_cast<size_t>(most_ * tables.row_bytes())),
      counts_(2 * sizeof(int)),
      host_counts_(2 * sizeof(int), Memory::kPinned),
      host_missing_(static_cast<size_t>(most_) * 4, Memory::kPinned),
      host_rows_(static_cast<size_t>(most_ * tables.row_bytes()), Memory::kPinned) {
  work_ = {keys_.as<int32_t>(),
           slot_keys_.as<int32_t>(),
           slot_index_.as<int32_t>(),
           slot_of_.as<int32_t>(),
           unique_.as<int32_t>(),
           miss_keys_.as<int32_t>(),
           miss_at_.as<int32_t>(),
           rows_.as<float4>(),
           brought_.as<float4>(),
           counts_.as<int>(),
           static_cast<int32_t>(ids.batch),
           static_cast<int32_t>(power_of_two(2 * ids.batch))};
  for (size_t t = 0; t < tables.rows.size(); ++t) {
    // Its part of the budget, by rows; key and stamp take 8 bytes a line.
    const double share = static_cast<double>(tables.rows[t]) / static_cast<double>(tables.total);
    const double lines = share * static_cast<double>(budget) / static_cast<double>(tables.row_bytes() + 8);
    caches_.push_back(
        std::make_unique<Cache>(std::max<int64_t>(1, static_cast<int64_t>(lines) / chain::kWays), vectors()));
    prefill(t);
  }
}

void Chain::prefill(size_t t) {
  Cache& cache = *caches_[t];
  const int64_t want = std::min<int64_t>(tables_.rows[t], int64_t{cache.c.sets} * chain::kWays);
  chain::Work w = work_;
  w.rows = nullptr;
  for (int64_t done = 0; done < want; done += kFillAtOnce) {
    const int64_t n = std::min(kFillAtOnce, want - done);
    for (int64_t i = 0; i < n; ++i)
      host_missing_.as<int32_t>()[i] = static_cast<int32_t>(tables_.first[t] + done + i);
    need(layer::copy_now(miss_keys_.as<void>(), host_missing_.as<void>(), static_cast<size_t>(n) * 4),
         "keys");
    need(layer::copy_now(brought_.as<void>(), tables_.row(tables_.first[t] + done),
                         static_cast<size_t>(n * tables_.row_bytes())),
         "rows");
    need(chain::insert(w, cache.c, static_cast<int32_t>(n), 0, device_.stream), "insert");
    wait();
  }
}

void Chain::run(int64_t set) {
  ++stamp_;
  asked_ = missed_ = 0;
  for (size_t t = 0; t < caches_.size(); ++t)
    one_table(t, ids_.of(set, static_cast<int32_t>(t)),
              out_.as<float4>() + static_cast<int64_t>(t) * vectors());
}

void Chain::one_table(size_t t, const int32_t* keys, float4* out) {
  const Cache& cache = *caches_[t];
  const int* const counts = host_counts_.as<int>();
  need(layer::copy_async(keys_.as<void>(), keys, static_cast<size_t>(ids_.batch) * 4, device_.stream),
       "keys");
  need(chain::clear(work_, device_.stream), "clear");
  need(chain::find_unique(work_, device_.stream), "unique");
  to_host(host_counts_.as<void>(), counts_.as<void>(), 2 * sizeof(int));
  const int32_t unique = counts[0];
  need(chain::query(work_, cache.c, unique, stamp_, device_.stream), "query");
  to_host(host_counts_.as<void>(), counts_.as<void>(), 2 * sizeof(int));
  const int32_t missing = counts[1];
  if (missing > 0) bring(cache, missing);
  need(chain::expand(work_, out, columns_ / 4, vectors(), device_.stream), "expand");
  wait();
  asked_ += unique;
  missed_ += missing;
}

/// Rows that are missing: keys to the host, rows from its memory, into the cache.
void Chain::bring(const Cache& cache, int32_t n) {
  to_host(host_missing_.as<void>(), miss_keys_.as<void>(), static_cast<size_t>(n) * 4);
  const auto bytes = static_cast<size_t>(tables_.row_bytes());
  for (int32_t m = 0; m < n; ++m)
    std::memcpy(host_rows_.as<char>() + static_cast<size_t>(m) * bytes,
                tables_.row(host_missing_.as<int32_t>()[m]), bytes);
  need(layer::copy_async(brought_.as<void>(), host_rows_.as<void>(), static_cast<size_t>(n) * bytes,
                         device_.stream),
       "rows");
  need(chain::insert(work_, cache.c, n, stamp_, device_.stream), "insert");
  wait();
}

}  // namespace

std::unique_ptr<Way> make_chain(int64_t budget, const Device& d, const Tables& t, const Ids& ids) {
  return std::make_unique<Chain>(budget, d, t, ids);
}

}  // namespace dpi::gpu
