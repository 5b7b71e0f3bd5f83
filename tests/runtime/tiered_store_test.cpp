// Models whose tables lie in the host tier give the scores of the same models with resident tables, to the
// bit: on every backend, with a tier that holds everything, a part, or hardly more than one call; with
// several callers who drive each other's rows out; after the file was replaced; late rows by each policy.
#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "runtime/tier_model.hpp"
#include "support/device.hpp"
#include "support/full.hpp"
#include "support/source_dir.hpp"

namespace dpi::test::tiered_store_test {
namespace {

bool same(const Scores& a, const Scores& b) {
  CHECK_MESSAGE(a.status.ok(), a.status.message());
  return same_bits(a.out, b.out) && same_bits(a.logits, b.logits);
}

TierStats sum(const Model& model) {
  TierStats all;
  for (size_t t = 0; t < model.engine().plan().tables.size(); ++t) {
    const auto s = model.engine().store().tier_stats(static_cast<int32_t>(t));
    if (!s) continue;
    all.hits += s->hits, all.late += s->late, all.absent += s->absent, all.fetched += s->fetched;
    all.defaulted += s->defaulted, all.failed += s->failed;
  }
  return all;
}

bool has_shared(const Model& model) {
  for (const auto& f : model.engine().schema().features)
    if (f.shared) return true;
  return false;
}

/// The emulated device takes less in an ordinary run.
bool is_short() { return device() == "cuda_emu" && !full_run(); }

const std::string kWhole = "67108864";  // holds every table

void compare(const std::string& path, const std::string& budget, const std::string& precision) {
  const auto plain = load(path, {{"precision", precision}});
  const auto tiered =
      load(path, {{"precision", precision}, {"store.host_bytes", budget}, {"store.resident_bytes", "0"}});
  std::vector<std::pair<int64_t, int64_t>> shapes = {{1, 0}, {37, 0}};
  if (!is_short()) shapes.emplace_back(3, 0);
  if (has_shared(*plain)) shapes.emplace_back(21, 5);
  for (const auto& [rows, groups] : shapes) {
    CAPTURE(rows);
    for (unsigned seed = 0; seed < (device() == "cuda_emu" ? 1u : 3u); ++seed) {
      const RandomBatch request(plain->engine().schema(), rows, groups, seed);
      const Scores want = score(*plain, request);
      for (int pass = 0; pass < 3; ++pass) {  // op by op, captured, replayed
        CAPTURE(pass);
        const Scores got = score(*tiered, request);
        if (got.status.code() == Code::kOutOfMemory && budget != kWhole) continue;  // its own keys do not fit
        CHECK(same(got, want));
      }
    }
  }
}

TEST_CASE("scores from the host tier are those of resident tables") {
  for (const std::string& path : bundles()) {
    CAPTURE(path);
    const bool looks_up = !load(path, {})->engine().plan().tables.empty();
    if (!looks_up) continue;
    for (const std::string& budget : {least_budget(path), std::string("200000"), kWhole}) {
      if (is_short() && budget == "200000") continue;
      CAPTURE(budget);
      compare(path, budget, "fp32");
    }
  }
}

TEST_CASE("rows that the precision narrows") {
  if (device() == "ref" || device() == "cpu") return;  // they hold float32
  const std::string path = source_dir() + "/weights/demo/bank_dcnv2.h5";
  for (const char* precision : {"fp16", "bf16"}) compare(path, least_budget(path), precision);
}

const std::string kDeepFm = "/weights/demo/msweb_deepfm.h5";

TEST_CASE("callers who drive each other's rows out each get their own scores") {
  const std::string path = source_dir() + kDeepFm;
  const auto plain = load(path, {});
  const auto tiered = load(path, {{"store.host_bytes", "40000"}, {"store.resident_bytes", "0"}});
  constexpr int kCallers = 8, kCalls = 60;
  std::vector<std::unique_ptr<RandomBatch>> requests;
  std::vector<Scores> want;
  for (unsigned i = 0; i < 12; ++i) {
    requests.push_back(std::make_unique<RandomBatch>(plain->engine().schema(), 5, 0, i));
    want.push_back(score(*plain, *requests.back()));
  }
  std::atomic<int> wrong{0}, right{0}, refused{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < kCallers; ++c) {
    callers.emplace_back([&, c] {
      for (int i = 0; i < kCalls; ++i) {
        const size_t r = static_cast<size_t>(i * 5 + c * 7) % requests.size();
        const Scores got = score(*tiered, *requests[r]);
        if (!got.status.ok())
          ++(got.status.code() == Code::kOutOfMemory || got.status.code() == Code::kQueueFull ? refused
                                                                                              : wrong);
        else
          ++(same_bits(got.out, want[r].out) ? right : wrong);
      }
    });
  }
  for (std::thread& t : callers) t.join();
  CHECK(wrong == 0);
  CHECK(right > kCallers * kCalls / 2);
  CHECK(sum(*tiered).fetched > 0);
  CHECK(sum(*tiered).failed == 0);
}

TEST_CASE("a model with a small tier warms up with calls of any size") {
  const int64_t most = is_short() ? 256 : 1024;
  const auto tiered = load(source_dir() + kDeepFm, tier_of("40000", {{"max_rows", std::to_string(most)}}));
  const Status warm = tiered->warm_up(most);
  CHECK_MESSAGE(warm.ok(), warm.message());
}

TEST_CASE("rows of a table that fits are there from the start") {
  const std::string path = source_dir() + kDeepFm;
  const auto tiered = load(path, {{"store.host_bytes", "67108864"}, {"store.resident_bytes", "0"}});
  const RandomBatch request(tiered->engine().schema(), 37, 0, 1);
  CHECK(score(*tiered, request).status.ok());
  CHECK(sum(*tiered).hits > 0);
  CHECK(sum(*tiered).late == 0);
  CHECK(sum(*tiered).fetched == 0);
}

TEST_CASE("a file that is replaced while a model serves from it changes nothing") {
  const auto folder = std::filesystem::temp_directory_path() / ("dpi_tiers_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const auto copy = folder / "model.h5", other = folder / "other.h5";
  std::filesystem::copy_file(source_dir() + kDeepFm, copy);
  const auto plain = load(copy.string(), {});
  const auto tiered = load(copy.string(), {{"store.host_bytes", "40000"}, {"store.resident_bytes", "0"}});
  std::ofstream(other) << "not a bundle";
  std::filesystem::rename(other, copy);
  for (unsigned seed = 0; seed < 10; ++seed) {
    const RandomBatch request(plain->engine().schema(), 5, 0, seed);
    CHECK(same(score(*tiered, request), score(*plain, request)));
  }
  CHECK(sum(*tiered).fetched > 0);
  std::filesystem::remove_all(folder);
}

TEST_CASE("a file that is cut off while a model serves from it is an error by name") {
  const auto copy = std::filesystem::temp_directory_path() / ("dpi_cut_" + std::to_string(getpid()) + ".h5");
  std::filesystem::copy_file(source_dir() + kDeepFm, copy);
  const auto tiered = load(copy.string(), {{"store.host_bytes", "40000"}, {"store.resident_bytes", "0"}});
  std::filesystem::resize_file(copy, 1000);
  Status failed;
  for (unsigned seed = 0; seed < 10 && failed.ok(); ++seed)
    failed = score(*tiered, RandomBatch(tiered->engine().schema(), 5, 0, seed)).status;
  CHECK(failed.code() == Code::kIo);
  CHECK(failed.message().find(copy.string() + ": row ") != std::string::npos);
  std::filesystem::remove(copy);
}

TEST_CASE("late rows by policy default score as the default row, then as they are") {
  const std::string path = source_dir() + kDeepFm;
  const auto plain = load(path, {});
  Options more = {{"store.host_bytes", "40000"}, {"store.resident_bytes", "0"}};
  for (const auto& t : plain->manifest().tables) more.emplace_back("table." + t.name + ".miss", "default");
  const auto tiered = load(path, more);
  const RandomBatch request(plain->engine().schema(), 1, 0, 3);
  const Scores want = score(*plain, request);
  bool equal = false;
  for (int i = 0; i < 2000 && !equal; ++i) {
    const Scores got = score(*tiered, request);
    REQUIRE_MESSAGE(got.status.ok(), got.status.message());
    equal = same_bits(got.out, want.out);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(equal);
  CHECK(sum(*tiered).late == 0);
}

TEST_CASE("options that cannot be are refused") {
  const std::string path = source_dir() + kDeepFm;
  const auto refusal = [&](const Options& more) { return Model::load(path, options_of(more)).status(); };
  CHECK(refusal({{"table.nothing.tier", "host"}}).code() == Code::kNotFound);
  const std::string name = load(path, {})->manifest().tables[0].name;
  CHECK(refusal({{"table." + name + ".tier", "host"}}).message() ==
        path + ": option 'table." + name +
            ".tier' is 'host', but there is no host tier: set 'store.host_bytes'");
  const Status small = refusal({{"store.host_bytes", "10"}, {"store.resident_bytes", "0"}});
  CHECK(small.code() == Code::kOutOfMemory);
  CHECK(small.message().find("leaves no room for a row of table") != std::string::npos);
  ModelOptions o;
  CHECK(set_option(&o, "table.x.tier", "gpu").message() ==
        "option 'table.x.tier' is 'gpu', expected auto, resident or host");
  CHECK(set_option(&o, "table.x.default", "nan").code() == Code::kInvalidArgument);
  CHECK(set_option(&o, "table..tier", "host").code() == Code::kNotFound);
  CHECK(set_option(&o, "table.x.y", "host").code() == Code::kNotFound);
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  const auto memory =
      Model::load_memory(std::as_bytes(std::span(bytes)),
                         options_of({{"store.host_bytes", "1000000"}, {"store.resident_bytes", "0"}}));
  CHECK(memory.status().code() == Code::kUnsupported);
}

TEST_CASE("tables say which tier they are in, and small ones stay resident") {
  const std::string path = source_dir() + kDeepFm;
  const auto model = load(path, {{"store.host_bytes", "1000000"}});
  CHECK(model->info_json().find("\"tier\":\"host\"") == std::string::npos);
  const auto tiered = load(path, {{"store.host_bytes", "1000000"}, {"store.resident_bytes", "0"}});
  CHECK(tiered->info_json().find("\"tier\":\"host\"") != std::string::npos);
  CHECK(tiered->counters_json().find("\"fetch_p99_us\"") != std::string::npos);
  const std::string name = tiered->manifest().tables[0].name;
  const auto one = load(path, {{"store.host_bytes", "1000000"}, {"table." + name + ".tier", "host"}});
  int32_t in_tier = 0;
  for (const PlanTable& t : one->engine().plan().tables) in_tier += t.tiered ? 1 : 0;
  CHECK(in_tier == 1);
  const auto not_one = load(path, tier_of("1000000", {{"table." + name + ".tier", "resident"}}));
  for (const PlanTable& t : not_one->engine().plan().tables) {
    if (t.name == name) CHECK(!t.tiered);
  }
}

TEST_CASE("rows of a table in the host tier can be looked at") {
  const std::string path = source_dir() + kDeepFm;
  const auto plain = load(path, {});
  const auto tiered = load(path, {{"store.host_bytes", "40000"}, {"store.resident_bytes", "0"}});
  for (const TableSpec& t : plain->manifest().tables) {
    if (!t.keys.empty()) continue;
    std::vector<int64_t> keys;
    for (int64_t k = 0; k < std::min<int64_t>(t.rows, 200); ++k) keys.push_back(t.rows - 1 - k);
    const auto n = keys.size() * static_cast<size_t>(t.dim);
    std::vector<float> want(n, 1), got(n, 2);
    const Status s = tiered->read_rows(t.name, keys, got);
    CHECK_MESSAGE(s.ok(), s.message());
    if (device() == "cuda_emu") continue;  // rows of resident tables are not in host memory
    REQUIRE(plain->read_rows(t.name, keys, want).ok());
    CHECK(same_bits(got, want));
  }
}

}  // namespace
}  // namespace dpi::test::tiered_store_test
