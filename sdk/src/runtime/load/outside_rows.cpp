#include "runtime/load/outside_rows.hpp"

#include <string>
#include <utility>

namespace dpi {

namespace {

using tiered::PluginSource;
using tiered::StoredTable;

/// A store that the options name.
struct NamedStore {
  const char* plugin;
  std::vector<std::pair<std::string, std::string>> settings;
};

std::vector<NamedStore> places_of(const ModelOptions& options) {
  const TierOptions& o = options.tiers;
  std::vector<NamedStore> places;
  if (!o.rocksdb_path.empty())
    places.push_back({"rocksdb", {{"path", o.rocksdb_path}, {"reads", options.rocksdb_reads}}});
  if (!o.redis_address.empty()) {
    places.push_back({"redis", {{"address", o.redis_address}}});
    auto& settings = places.back().settings;
    if (!o.redis_user.empty()) settings.emplace_back("user", o.redis_user);
    if (!o.redis_password.empty()) settings.emplace_back("password", o.redis_password);
    settings.emplace_back("tls", o.redis_tls);
    if (!o.redis_tls_ca.empty()) settings.emplace_back("tls_ca", o.redis_tls_ca);
    if (!o.redis_tls_cert.empty()) settings.emplace_back("tls_cert", o.redis_tls_cert);
    if (!o.redis_tls_key.empty()) settings.emplace_back("tls_key", o.redis_tls_key);
    settings.emplace_back("replicas", o.redis_replicas);
    if (o.redis_connections > 0) settings.emplace_back("connections", std::to_string(o.redis_connections));
    settings.emplace_back("connect_timeout_ms", std::to_string(o.redis_connect_ms));
    settings.emplace_back("timeout_ms", std::to_string(o.redis_timeout_ms));
  }
  return places;
}

Result<std::unique_ptr<PluginSource>> open_place(const NamedStore& place, std::vector<StoredTable> tables,
                                                 const ModelOptions& options) {
  DPI_ASSIGN_OR_RETURN(const store::StorePlugin* plugin,
                       store::find_store_plugin(place.plugin, options.backend_dir));
  tiered::StoreRequest request;
  request.tables = std::move(tables);
  request.threads = options.tiers.fetch_threads;
  request.settings = place.settings;
  return PluginSource::open(*plugin, request);
}

/// Tables of several stores.
class OutsideRows final : public tiered::RowSource {
 public:
  struct Home {
    int32_t store = 0;
    int32_t table = 0;  // its number there
  };
  OutsideRows(std::vector<std::unique_ptr<PluginSource>> stores, std::vector<Home> homes)
      : stores_(std::move(stores)), homes_(std::move(homes)) {}

  Status fetch(const tiered::FetchRequest& request) override {
    const Home& home = homes_[static_cast<size_t>(request.table)];
    tiered::FetchRequest there = request;
    there.table = home.table;
    return stores_[static_cast<size_t>(home.store)]->fetch(there);
  }
  int64_t sequence(int32_t table) override {
    const Home& home = homes_[static_cast<size_t>(table)];
    return stores_[static_cast<size_t>(home.store)]->sequence(home.table);
  }
  std::vector<StoreName> stores() const override {
    std::vector<StoreName> names;
    names.reserve(stores_.size());
    for (const auto& store : stores_) names.push_back(store->stores().front());
    return names;
  }
  int32_t store_of(int32_t table) const override { return homes_[static_cast<size_t>(table)].store; }
  std::vector<StoreNode> nodes(int32_t store) override {
    return stores_[static_cast<size_t>(store)]->nodes(0);
  }
  int32_t route(int32_t table, int64_t key) override {
    const Home& home = homes_[static_cast<size_t>(table)];
    return stores_[static_cast<size_t>(home.store)]->route(home.table, key);
  }

 private:
  std::vector<std::unique_ptr<PluginSource>> stores_;
  std::vector<Home> homes_;
};

/// The number of the first place that has the table; what the last one says when none has.
Result<int32_t> find_home(const std::vector<NamedStore>& places, const StoredTable& table,
                          const ModelOptions& options) {
  for (size_t p = 0; p + 1 < places.size(); ++p) {
    auto opened = open_place(places[p], {table}, options);
    if (opened.ok()) return static_cast<int32_t>(p);
    if (opened.status().code() != Code::kNotFound) return std::move(opened).status();
  }
  return static_cast<int32_t>(places.size()) - 1;
}

}  // namespace

Result<std::unique_ptr<tiered::RowSource>> open_outside_rows(std::vector<StoredTable> tables,
                                                             const ModelOptions& options) {
  const std::vector<NamedStore> places = places_of(options);
  auto all = open_place(places.front(), tables, options);  // as it mostly is
  if (all.ok()) return std::unique_ptr<tiered::RowSource>(std::move(all).value());
  if (places.size() == 1 || all.status().code() != Code::kNotFound) return std::move(all).status();
  std::vector<std::vector<StoredTable>> of_place(places.size());
  std::vector<OutsideRows::Home> homes;
  for (StoredTable& t : tables) {
    DPI_ASSIGN_OR_RETURN(const int32_t at, find_home(places, t, options));
    std::vector<StoredTable>& there = of_place[static_cast<size_t>(at)];
    homes.push_back({at, static_cast<int32_t>(there.size())});
    there.push_back(std::move(t));
  }
  std::vector<std::unique_ptr<PluginSource>> stores;
  for (size_t p = 0; p < places.size(); ++p) {
    if (of_place[p].empty()) continue;
    for (OutsideRows::Home& home : homes) {
      if (home.store == static_cast<int32_t>(p)) home.store = static_cast<int32_t>(stores.size());
    }
    DPI_ASSIGN_OR_RETURN(auto store, open_place(places[p], std::move(of_place[p]), options));
    stores.push_back(std::move(store));
  }
  return std::unique_ptr<tiered::RowSource>(
      std::make_unique<OutsideRows>(std::move(stores), std::move(homes)));
}

}  // namespace dpi
