#include "store/engine/fixture.hpp"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bundle/bundle.hpp"
#include "store/external/stored_tables.hpp"
#include "support/python.hpp"
#include "support/sanitizer.hpp"

namespace dpi::test {
namespace {

struct Models {
  Folder folder;
  bool made = made_by(source_dir() + "/tests/store/engine/make_models.py", folder.path());
  std::string whole = folder.path() + "/whole.h5", external = folder.path() + "/external.h5";
  std::string sums = folder.path() + "/sums.h5", sums_external = folder.path() + "/sums_external.h5";
  std::string keys = folder.path() + "/keys.h5", keys_external = folder.path() + "/keys_external.h5";
};

const Models& models() {
  static const Models m;
  return m;
}

template <class T>
T taken(Result<T> r) {
  REQUIRE_MESSAGE(r.ok(), r.status().message());
  return std::move(r).value();
}

/// The external tables, and the store they are written to.
struct Writer {
  std::unique_ptr<Bundle> bundle;
  std::vector<size_t> tables;
  std::unique_ptr<tiered::PluginSource> store;

  Writer(const std::string& plugin, const StoreSettings& settings, const std::string& path = whole(),
         const std::vector<std::string>& names = kElsewhere)
      : bundle(taken(Bundle::open(path))) {
    tiered::StoreRequest request;
    for (size_t t = 0; t < bundle->manifest().tables.size(); ++t) {
      const std::string& name = bundle->manifest().tables[t].name;
      if (std::find(names.begin(), names.end(), name) == names.end()) continue;
      tables.push_back(t);
      request.tables.push_back(taken(stored_table(*bundle, t)));
    }
    request.mode = DPI_STORE_WRITE;
    request.settings = settings;
    store = taken(tiered::PluginSource::open(*taken(store::find_store_plugin(plugin, DPI_TEST_STORE_PLUGINS)),
                                             request));
  }
};

}  // namespace

Folder::Folder() : path_((std::filesystem::temp_directory_path() / "dpi_tiers_XXXXXX").string()) {
  REQUIRE(::mkdtemp(path_.data()) != nullptr);
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

bool have_models() { return models().made; }
const std::string& whole() { return models().whole; }
const std::string& external() { return models().external; }
const std::string& sums() { return models().sums; }
const std::string& sums_external() { return models().sums_external; }
const std::string& keys() { return models().keys; }
const std::string& keys_external() { return models().keys_external; }

bool have_rocksdb() {
  if (DPI_UNDER_TSAN) return false;  // Debian's library is not instrumented
  return std::filesystem::exists(std::string(DPI_TEST_STORE_PLUGINS) + "/libdpi_rocksdb.so");
}

std::shared_ptr<void> hold_store(const std::string& plugin, const StoreSettings& settings) {
  return std::make_shared<Writer>(plugin, settings);
}

namespace {

void fill(const Writer& w) {
  for (size_t i = 0; i < w.tables.size(); ++i) {
    const auto go_on = [](int64_t) { return Status(); };
    const auto wrote = write_table(*w.bundle, w.tables[i], *w.store, static_cast<int32_t>(i), go_on);
    REQUIRE_MESSAGE(wrote.ok(), wrote.status().message());
  }
}

}  // namespace

void fill_store(const std::string& plugin, const StoreSettings& settings) { fill({plugin, settings}); }

void fill_keys(const std::string& plugin, const StoreSettings& settings) {
  fill({plugin, settings, keys(), {"key_rows", "other_rows"}});
}

Request::Request(const std::vector<Row>& rows) {
  for (const Row& r : rows) {
    for (const int64_t id : {r.user, r.item, r.page, r.word, r.ad, r.city, r.key}) {
      ids_.push_back(id);
      offsets_.push_back(static_cast<int64_t>(ids_.size()));
    }
    ids_.insert(ids_.end(), r.seen.begin(), r.seen.end());
    offsets_.push_back(static_cast<int64_t>(ids_.size()));
  }
  batch.struct_size = sizeof batch;
  batch.rows = static_cast<int64_t>(rows.size());
  batch.ids = ids_.data();
  batch.offsets = offsets_.data();
  batch.nnz = static_cast<int64_t>(ids_.size());
}

const std::vector<int64_t>& known_keys() {  // as make_models.py has them
  static const std::vector<int64_t> keys = [] {
    std::vector<int64_t> k = {INT64_MIN, INT64_MIN + 1,    INT64_MAX,          0, -1,
                              1,         int64_t{1} << 32, -(int64_t{1} << 32)};
    for (int64_t i = 1; i < 293; ++i) k.push_back(i * 4096);
    std::sort(k.begin(), k.end());
    return k;
  }();
  return keys;
}

std::vector<Row> random_rows(size_t n, std::mt19937_64& rng) {
  const auto any = [&rng](int64_t below) {
    return static_cast<int64_t>(rng() % static_cast<uint64_t>(below));
  };
  std::vector<Row> rows(n);
  for (Row& r : rows) {
    r = {any(kRows), any(kRows), any(kRows), any(kRows), any(kRows), any(50), kNoKey, {}};
    if (any(8) > 0) r.key = known_keys()[static_cast<size_t>(any(300))];
    for (int64_t i = any(6); i > 0; --i) r.seen.push_back(any(4) > 0 ? any(kRows) : 0);
  }
  return rows;
}

Loaded try_load(const std::string& path, const Pairs& more) {
  Pairs pairs = {{"device", device()},   {"debug.fold", "off"}, {"backend_dir", DPI_TEST_STORE_PLUGINS},
                 {"max_rows", "256"},    {"max_nnz", "4096"},   {"max_contexts", "4"},
                 {"nonfinite", "return"}};
  pairs.insert(pairs.end(), more.begin(), more.end());
  Loaded l;
  Error e;
  dpi_model* m = nullptr;
  l.code = dpi_model_load(path.c_str(), options(pairs).get(), &m, &e);
  l.message = e.text();
  l.model.reset(m);
  return l;
}

ModelPtr load_model(const std::string& path, const Pairs& more) {
  Loaded l = try_load(path, more);
  REQUIRE_MESSAGE(l.code == DPI_OK, l.message);
  return std::move(l.model);
}

Pairs tiered(const std::string& bytes, const Pairs& more) {
  Pairs p = {{"store.host_bytes", bytes}, {"store.resident_bytes", "0"}, {"table.cities.tier", "resident"}};
  p.insert(p.end(), more.begin(), more.end());
  return p;
}

Scored score(dpi_model* model, const Request& request, int timeout_ms, const volatile int32_t* cancel) {
  Scored s;
  s.out.assign(static_cast<size_t>(request.batch.rows), -1.0f);
  dpi_run_options run = DPI_RUN_OPTIONS_INIT;
  run.cancel = cancel;
  const uint64_t begin = now_ns();
  if (timeout_ms > 0) run.deadline_ns = begin + static_cast<uint64_t>(timeout_ms) * 1'000'000u;
  Error e;
  s.code = dpi_predict(model, &request.batch, s.out.data(), s.out.size(), &run, &e);
  s.seconds = static_cast<double>(now_ns() - begin) * 1e-9;
  s.message = e.text();
  return s;
}

const std::vector<float> right_scores(const Request& request) {
  static const ModelPtr resident = load_model(whole(), {});
  const Scored s = score(resident.get(), request);
  REQUIRE_MESSAGE(s.code == DPI_OK, s.message);
  return s.out;
}

TierCounts tier(const dpi_model* model, const std::string& table) {
  std::string text(dpi_model_counters_json(model, nullptr, 0) + 256, '\0');
  text.resize(dpi_model_counters_json(model, text.data(), text.size()) - 1);
  const auto counters = nlohmann::json::parse(text);
  for (const auto& t : counters.at("tiers")) {
    if (t.at("name") != table) continue;
    return {t.at("hits"),    t.at("late"),    t.at("absent"),  t.at("defaulted"),
            t.at("dropped"), t.at("fetched"), t.at("missing"), t.at("failed")};
  }
  FAIL("no tier of table ", table, " in ", text);
  return {};
}

uint64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

}  // namespace dpi::test
