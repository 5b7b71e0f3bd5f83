// Lookups in tiered tables give the scores of the same model with all tables in memory: to the bit where the
// plan is the same but for them, on every backend, whole rows and users with items, chunks in flight, graphs,
// several callers. Rows lie at places that change with every call (scattered_store.hpp).
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>
#include <thread>
#include <vector>

#include "runtime/model/model.hpp"
#include "store/resident/resident_store.hpp"
#include "support/device.hpp"
#include "support/full.hpp"
#include "support/host_memory.hpp"
#include "support/random_batch.hpp"
#include "support/scattered_store.hpp"
#include "support/source_dir.hpp"

namespace dpi::test::tiered_lookup_test {
namespace {

std::vector<float> logits(Model& model, const RandomBatch& request) {
  const auto n = static_cast<size_t>(request.batch.item.rows * model.engine().heads());
  std::vector<float> out(n, std::nanf("")), logits(n, std::nanf(""));
  RunControl control;
  control.logits = logits.data();
  const Status s = model.predict(request.batch, out.data(), control);
  CHECK_MESSAGE(s.ok(), s.message());
  for (size_t i = 0; i < n; ++i)
    if (std::isnan(logits[i])) logits[i] = out[i];
  return logits;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

bool near(const std::vector<float>& got, const std::vector<float>& want) {
  for (size_t i = 0; i < want.size(); ++i)
    if (!(std::fabs(got[i] - want[i]) <= 1e-5f * std::max(1.0f, std::fabs(want[i])))) return false;
  return got.size() == want.size();
}

struct Loaded {
  std::shared_ptr<ScatteredTables> tables = std::make_shared<ScatteredTables>();
  std::unique_ptr<Model> model;
};

Loaded load(Bundle& bundle, const ModelOptions& options, const HostMemory& memory) {
  Loaded l;
  std::unique_ptr<TableStore> store;
  if (!options.tiered.empty())
    store = std::make_unique<ScatteredStore>(make_resident_store(memory.b.api, memory.b.device, 0), l.tables);
  auto made = Model::create(bundle, options, std::move(store));
  REQUIRE_MESSAGE(made.ok(), made.status().message());
  l.model = std::move(made).value();
  return l;
}

ModelOptions small_options(bool fold) {
  ModelOptions options;
  options.device = device();
  options.max_rows = 16;
  options.max_contexts = 4;
  options.fold = fold;
  options.refuse_nonfinite = false;
  return options;
}

/// The tables that the model looks something up in.
std::vector<std::string> looked_up(const Model& plain) {
  std::vector<std::string> names;
  for (const PlanTable& t : plain.engine().plan().tables)
    if (t.source >= 0) names.push_back(t.name);
  return names;
}

bool has_shared(const Model& model) {
  for (const auto& f : model.engine().schema().features)
    if (f.shared) return true;
  return false;
}

void compare(Bundle& bundle, const HostMemory& memory, bool fold, bool all) {
  ModelOptions options = small_options(false);
  const Loaded exact = load(bundle, options, memory);
  const std::vector<std::string> names = looked_up(*exact.model);
  options = small_options(fold);
  for (size_t i = 0; i < names.size(); i += all ? 1 : 2) options.tiered.push_back(names[i]);
  if (options.tiered.empty()) return;
  const Loaded tiered = load(bundle, options, memory);
  CHECK_FALSE(tiered.tables->tables.empty());
  std::vector<std::pair<int64_t, int64_t>> shapes = {{3, 0}, {37, 0}};
  if (has_shared(*exact.model)) shapes.emplace_back(21, 5);
  for (const auto& [rows, groups] : shapes) {
    CAPTURE(rows);
    CAPTURE(groups);
    const RandomBatch request(exact.model->engine().schema(), rows, groups, 5);
    const std::vector<float> want = logits(*exact.model, request);
    for (int pass = 0; pass < 3; ++pass) {  // op by op, captured, replayed
      CAPTURE(pass);
      const std::vector<float> got = logits(*tiered.model, request);
      CHECK((fold ? near(got, want) : same_bits(got, want)));
    }
  }
  CHECK(tiered.tables->leases == 0);
}

TEST_CASE("scores from places are the scores from rows") {
  const HostMemory memory;
  for (const char* folder : {"weights/demo", "tests/e2e/golden", "tests/e2e/op_bundles"}) {
    for (const auto& entry : std::filesystem::directory_iterator(source_dir() + "/" + folder)) {
      if (entry.path().extension() != ".h5") continue;
      CAPTURE(entry.path().filename().string());
      auto bundle = Bundle::open(entry.path().string());
      REQUIRE(bundle.ok());
      for (const bool fold : {false, true})
        for (const bool all : {true, false})
          if (device() != "cuda_emu" || full_run() || fold == all)
            compare(*bundle.value(), memory, fold, all);
    }
  }
}

TEST_CASE("a lease that ends before the ops is seen") {
  const HostMemory memory;
  auto bundle = Bundle::open(source_dir() + "/weights/demo/adult_widedeep.h5");
  REQUIRE(bundle.ok());
  ModelOptions options = small_options(true);
  const Loaded plain = load(*bundle.value(), options, memory);
  options.tiered = looked_up(*plain.model);
  const Loaded tiered = load(*bundle.value(), options, memory);
  tiered.tables->give_back_early = true;
  const RandomBatch request(plain.model->engine().schema(), 5, 0, 5);
  for (const float v : logits(*tiered.model, request)) CHECK(std::isnan(v));
}

TEST_CASE("callers side by side each have their own places") {
  const HostMemory memory;
  auto bundle = Bundle::open(source_dir() + "/weights/demo/msweb_deepfm.h5");
  REQUIRE(bundle.ok());
  ModelOptions options = small_options(true);
  const Loaded plain = load(*bundle.value(), options, memory);
  options.tiered = looked_up(*plain.model);
  const Loaded tiered = load(*bundle.value(), options, memory);
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (unsigned t = 0; t < 4; ++t) {
    callers.emplace_back([&, t] {
      const RandomBatch request(plain.model->engine().schema(), 30, 0, 40 + t);
      const std::vector<float> want = logits(*plain.model, request);
      for (int i = 0; i < 20; ++i)
        if (!near(logits(*tiered.model, request), want)) ++wrong;
    });
  }
  for (auto& c : callers) c.join();
  CHECK(wrong == 0);
}

TEST_CASE("a table that the model does not look up is refused by name") {
  auto bundle = Bundle::open(source_dir() + "/weights/demo/adult_widedeep.h5");
  REQUIRE(bundle.ok());
  ModelOptions options = small_options(true);
  options.tiered = {"no_such_table"};
  const auto made = Model::create(*bundle.value(), options);
  CHECK(made.status().code() == Code::kInvalidArgument);
  CHECK(made.status().message().find("no_such_table") != std::string::npos);
}

}  // namespace
}  // namespace dpi::test::tiered_lookup_test
