// Models whose host tier is filled by a hot-key list: scores stay those of resident tables, to the bit; the
// first pass over the list's rows waits for none, as it does without the list. Lists that are damaged, empty
// or of another bundle are refused by name.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "runtime/tier_model.hpp"
#include "store/hot_keys/hot_key_writer.hpp"

namespace dpi::test::hot_keys_test {
namespace {

namespace fs = std::filesystem;

struct Folder {
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  std::string file(const char* name) const { return (path / name).string(); }
  fs::path path = fs::temp_directory_path() / ("dpi_hot_model_" + std::to_string(getpid()) + device());
};

/// Requests of one row whose bags have one id each, from the end of each vocabulary.
struct HotRequests {
  HotRequests(const Model& model, int64_t n, int64_t ids_of_feature) {
    const ResolveSchema& schema = model.engine().schema();
    for (int64_t r = 0; r < n; ++r) {
      auto& ids = all.emplace_back();
      for (const auto& f : schema.features) {
        if (f.slot < 0) continue;
        const int64_t last = f.spec.vocab_size - 1;
        int64_t id = last - (r * 13 + f.slot) % std::min(ids_of_feature, last + 1);
        if (f.spec.has_missing_id && id == f.spec.missing_id) id = last;
        ids.push_back(id);
        used.insert(id);
      }
    }
    dense.assign(static_cast<size_t>(schema.columns.n_columns), 0.25f);
  }
  Batch batch(size_t r) const {
    Batch b;
    b.item.rows = 1;
    b.item.ids = all[r].data();
    b.item.nnz = static_cast<int64_t>(all[r].size());
    b.item.dense = dense.empty() ? nullptr : dense.data();
    return b;
  }
  std::vector<std::vector<int64_t>> all;
  std::vector<float> dense;
  std::set<int64_t> used;
};

/// Of every table of the bundle the rows that have one of these numbers.
void write_list(const std::string& path, const std::string& bundle_path, const std::set<int64_t>& rows) {
  const auto bundle = Bundle::open(bundle_path);
  REQUIRE(bundle.ok());
  std::vector<HotTable> heads;
  std::vector<std::vector<HotKey>> keys;
  for (size_t t = 0; t < (*bundle)->manifest().tables.size(); ++t) {
    HotTable head = hot_table_of(**bundle, t);
    auto& of_table = keys.emplace_back();
    for (const int64_t row : rows) {
      if (row < head.rows) of_table.push_back({row, static_cast<uint64_t>(3 + row % 5)});
    }
    std::sort(of_table.begin(), of_table.end(), hotter);
    for (const HotKey& k : of_table) head.lookups += k.count;
    head.n = static_cast<int64_t>(of_table.size());
    heads.push_back(head);
  }
  auto w = HotKeyWriter::create(path, heads);
  REQUIRE(w.ok());
  for (const auto& k : keys) REQUIRE((*w)->add(k).ok());
  REQUIRE((*w)->commit().ok());
}

struct Pass {
  uint64_t hits = 0, late = 0, fetched = 0;
};

/// Scores every request once and compares it with the resident model's.
Pass first_pass(Model& plain, Model& tiered, const HotRequests& requests) {
  for (size_t r = 0; r < requests.all.size(); ++r) {
    const auto heads = static_cast<size_t>(plain.engine().heads());
    std::vector<float> want(heads), got(heads);
    REQUIRE(plain.predict(requests.batch(r), want.data(), {}).ok());
    const Status s = tiered.predict(requests.batch(r), got.data(), {});
    REQUIRE_MESSAGE(s.ok(), s.message());
    CHECK(same_bits(got, want));
  }
  Pass pass;
  for (size_t t = 0; t < tiered.engine().plan().tables.size(); ++t) {
    const auto s = tiered.engine().store().tier_stats(static_cast<int32_t>(t));
    if (s) pass.hits += s->hits, pass.late += s->late, pass.fetched += s->fetched;
  }
  return pass;
}

TEST_CASE("the first pass over the rows of a list finds all of them, in a tier that holds a part") {
  const Folder folder;
  const std::pair<const char*, const char*> models[] = {{"/weights/demo/msweb_deepfm.h5", "9000"},
                                                        {"/tests/e2e/golden/fx_deepfm_i8.h5", "6500"},
                                                        {"/tests/e2e/golden/fx_deepfm_half.h5", "6500"}};
  for (const auto& [name, budget] : models) {
    CAPTURE(name);
    const std::string path = source_dir() + name;
    const auto plain = load(path, {});
    const HotRequests requests(*plain, 40, 6);
    write_list(folder.file("list"), path, requests.used);
    const auto cold = load(path, tier_of(budget));
    const auto hot = load(path, tier_of(budget, {{"store.hot_keys", folder.file("list")}}));
    const Pass without = first_pass(*plain, *cold, requests), with = first_pass(*plain, *hot, requests);
    CHECK(without.fetched > 0);
    CHECK(with.fetched == 0);
    CHECK(with.late == 0);
    CHECK(with.hits == without.hits + without.late);
    CHECK(with.hits > 0);
  }
}

TEST_CASE("scores of random requests are those of resident tables in any tier that a list fills") {
  const Folder folder;
  for (const std::string& path : bundles()) {
    CAPTURE(path);
    const auto plain = load(path, {});
    if (plain->engine().plan().tables.empty()) continue;
    std::set<int64_t> rows;
    for (int64_t row = 1; row < 300; row += 3) rows.insert(row);
    write_list(folder.file("list"), path, rows);
    for (const std::string& budget : {least_budget(path), std::string("67108864")}) {
      const auto tiered = load(path, tier_of(budget, {{"store.hot_keys", folder.file("list")}}));
      const RandomBatch request(plain->engine().schema(), 3, 0, 1);
      const Scores got = score(*tiered, request);
      if (got.status.code() == Code::kOutOfMemory && budget != "67108864") continue;
      CHECK_MESSAGE(got.status.ok(), got.status.message());
      CHECK(same_bits(got.out, score(*plain, request).out));
    }
    if (device() == "cuda_emu") break;
  }
}

TEST_CASE("a list that cannot be used is refused by name, and so is one for which there is no tier") {
  const Folder folder;
  const std::string path = source_dir() + "/weights/demo/msweb_deepfm.h5";
  const auto refusal = [&](const Options& more) { return Model::load(path, options_of(more)).status(); };
  const auto with_list = [&](const std::string& list) {
    return refusal(tier_of("40000", {{"store.hot_keys", list}}));
  };
  write_list(folder.file("list"), path, {1, 2, 3});
  CHECK(with_list(folder.file("list")).ok());
  CHECK(refusal({{"store.hot_keys", folder.file("list")}}).message() ==
        path +
            ": option 'store.hot_keys' fills a host tier or copies of other devices' rows, and there are "
            "none: set 'store.host_bytes' or 'store.peer_copy_bytes'");
  CHECK(with_list(folder.file("none")).code() == Code::kNotFound);
  CHECK(with_list(folder.file("none")).message().find("none'") != std::string::npos);
  write_list(folder.file("empty"), path, {});
  CHECK(with_list(folder.file("empty")).message().find("it holds no key") != std::string::npos);
  fs::copy_file(folder.file("list"), folder.file("damaged"));
  fs::resize_file(folder.file("damaged"), fs::file_size(folder.file("list")) - 1);
  CHECK(with_list(folder.file("damaged")).code() == Code::kBadModel);
  write_list(folder.file("foreign"), source_dir() + "/weights/demo/bank_dcnv2.h5", {1});
  CHECK(with_list(folder.file("foreign")).code() == Code::kNotFound);
  CHECK(with_list(folder.file("foreign")).message().find("is none of this bundle's") != std::string::npos);
  // also where no table is large enough for the tier
  CHECK(refusal({{"store.host_bytes", "40000"}, {"store.hot_keys", folder.file("foreign")}}).code() ==
        Code::kNotFound);
}

TEST_CASE("a list of a table of this name with other rows is another one") {
  const Folder folder;
  const std::string path = source_dir() + "/weights/demo/msweb_deepfm.h5";
  const auto bundle = Bundle::open(path);
  REQUIRE(bundle.ok());
  HotTable head = hot_table_of(**bundle, 0);
  head.content[31] ^= std::byte{1};
  head.n = 1, head.lookups = 1;
  const HotKey key[] = {{1, 1}};
  auto w = HotKeyWriter::create(folder.file("list"), {head});
  REQUIRE(w.ok());
  REQUIRE((*w)->add(key).ok());
  REQUIRE((*w)->commit().ok());
  const Status s =
      Model::load(path, options_of(tier_of("40000", {{"store.hot_keys", folder.file("list")}}))).status();
  CHECK(s.code() == Code::kInvalidArgument);
  CHECK(s.message().find("table '" + head.name + "' is another one") != std::string::npos);
  CHECK(s.message().find("dpi store hot-keys") != std::string::npos);
}

}  // namespace
}  // namespace dpi::test::hot_keys_test
