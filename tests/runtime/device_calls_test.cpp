// Calls on a device with its own memory: captured graphs, padding to buckets, several chunks in flight,
// shared rows. The oracle is the reference backend on the same rows.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "runtime/execute/context.hpp"
#include "runtime/execute/timeline.hpp"
#include "runtime/model/model.hpp"
#include "store/resident/resident_store.hpp"
#include "support/device.hpp"
#include "support/forwarding_store.hpp"
#include "support/full.hpp"
#include "support/host_memory.hpp"
#include "support/random_batch.hpp"
#include "support/source_dir.hpp"

namespace dpi::test::device_calls_test {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// Bundles between which every kind of feature, dtype and row space occurs.
std::vector<std::string> some_bundles() {
  return {"weights/demo/adult_widedeep.h5",   "weights/demo/bank_dcnv2.h5",
          "weights/demo/msweb_deepfm.h5",     "tests/bundle/data/small.h5",
          "tests/e2e/golden/fx_dcn.h5",       "tests/e2e/golden/fx_dcnv2_parallel.h5",
          "tests/e2e/golden/fx_deepfm_i8.h5", "tests/e2e/op_bundles/row_spaces.h5"};
}

std::unique_ptr<Bundle> open(const std::string& file) {
  auto bundle = Bundle::open(source_dir() + "/" + file);
  REQUIRE_MESSAGE(bundle.ok(), file);
  return std::move(bundle).value();
}

ModelOptions small_options(const std::string& where) {
  ModelOptions o;
  o.device = where;
  o.max_rows = 16;
  o.max_contexts = 1;
  return o;
}

std::unique_ptr<Model> load(Bundle& bundle, const ModelOptions& options) {
  auto model = Model::create(bundle, options);
  REQUIRE_MESSAGE(model.ok(), model.status().message());
  return std::move(model).value();
}

struct Scores {
  std::vector<float> value, logit;

  Scores(Model& model, const Batch& batch)
      : value(static_cast<size_t>(batch.item.rows * model.engine().heads()), kNaN), logit(value) {
    RunControl control;
    control.logits = logit.data();
    const Status s = model.predict(batch, value.data(), control);
    CHECK_MESSAGE(s.ok(), s.message());
  }
};

/// Within 1e-5 of max(1, |want|). gaps: a NaN is right where one is wanted (logits of heads that have none).
bool near(const std::vector<float>& got, const std::vector<float>& want, bool gaps = false) {
  if (got.size() != want.size()) return false;
  for (size_t i = 0; i < got.size(); ++i) {
    if (gaps && std::isnan(want[i]) && std::isnan(got[i])) continue;
    if (!(std::fabs(got[i] - want[i]) <= 1e-5f * std::max(1.0f, std::fabs(want[i])))) return false;
  }
  return true;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST_CASE("graphs, slots and chunks change no score") {
  for (const std::string& file : some_bundles()) {
    CAPTURE(file);
    const auto bundle = open(file);
    const auto reference = load(*bundle, small_options("ref"));
    ModelOptions options = small_options(device());
    const auto graphs = load(*bundle, options);
    options.in_flight = 1;
    options.graphs = false;
    const auto plain = load(*bundle, options);
    const ResolveSchema& schema = reference->engine().schema();
    unsigned seed = 1;
    for (const int64_t rows : {1, 2, 3, 16, 17, 33, 70}) {
      for (const int64_t groups : {int64_t{0}, int64_t{1}, int64_t{5}}) {
        if (groups > 0 && schema.columns.n_shared_slots + schema.columns.n_shared_columns == 0) continue;
        CAPTURE(rows);
        CAPTURE(groups);
        const RandomBatch request(schema, rows, groups, seed++);
        const Scores want(*reference, request.batch);
        const Scores got(*graphs, request.batch);
        const Scores eager(*plain, request.batch);
        CHECK(near(got.value, want.value));
        CHECK(near(got.logit, want.logit, true));
        CHECK(same_bits(got.value, eager.value));
        for (int pass = 0; pass < 2; ++pass) {  // captured, then replayed
          const Scores again(*graphs, request.batch);
          CHECK(same_bits(got.value, again.value));
        }
      }
    }
    if (device() == "cuda_emu") CHECK(graphs->engine().uses_graphs());
  }
}

TEST_CASE("a replayed graph gets the input of its own call, copied or fetched") {
  const auto bundle = open("weights/demo/bank_dcnv2.h5");
  ModelOptions options = small_options("ref");
  const int64_t most = device() == "cuda_emu" && !full_run() ? 128 : 1024;
  options.max_rows = most;
  const auto reference = load(*bundle, options);
  options.device = device();
  for (const char* way : {"kernel", "copy"}) {
    CAPTURE(std::string(way));
    options.fetch = way;
    const auto model = load(*bundle, options);
    const ResolveSchema& schema = reference->engine().schema();
    unsigned seed = 21;
    for (const int64_t rows : {most, most - 24, int64_t{3}, most, int64_t{3}, most - 23, most}) {
      CAPTURE(rows);
      const RandomBatch request(schema, rows, 0, seed++);
      CHECK(near(Scores(*model, request.batch).value, Scores(*reference, request.batch).value));
    }
  }
}

TEST_CASE("a refused chunk leaves the call failed and the next one right") {
  const auto bundle = open("weights/demo/adult_widedeep.h5");
  const auto reference = load(*bundle, small_options("ref"));
  const auto model = load(*bundle, small_options(device()));
  const RandomBatch request(model->engine().schema(), 70, 0, 7);
  Batch batch = request.batch;
  std::vector<float> dense(batch.item.dense,
                           batch.item.dense + 70 * model->engine().schema().columns.n_columns);
  dense[dense.size() - 1] = std::numeric_limits<float>::infinity();  // in the last chunk
  batch.item.dense = dense.data();
  std::vector<float> out(70, kNaN);
  const Status refused = model->predict(batch, out.data(), {});
  CHECK(refused.code() == Code::kInvalidArgument);
  const Scores want(*reference, request.batch);
  const Scores got(*model, request.batch);
  CHECK(near(got.value, want.value));
}

TEST_CASE("warm-up captures every bucket, and calls of several chunks") {
  const auto bundle = open("weights/demo/adult_widedeep.h5");
  const auto model = load(*bundle, small_options(device()));
  CHECK(model->warm_up(1000).ok());
  const auto reference = load(*bundle, small_options("ref"));
  const RandomBatch request(model->engine().schema(), 48, 0, 9);
  CHECK(near(Scores(*model, request.batch).value, Scores(*reference, request.batch).value));
}

/// Tables that seem to have one row: what a lookup meets when memory was overwritten.
class ShrunkenReader final : public ForwardingReader {
 public:
  using ForwardingReader::ForwardingReader;
  kernels::TableView view(int32_t t) const override {
    kernels::TableView v = ForwardingReader::view(t);
    v.rows = 1;
    return v;
  }
};

class ShrunkenStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  Result<std::unique_ptr<StoreReader>> open_reader(const ReaderLimits& limits) override {
    DPI_ASSIGN_OR_RETURN(std::unique_ptr<StoreReader> inner, ForwardingStore::open_reader(limits));
    return std::unique_ptr<StoreReader>(std::make_unique<ShrunkenReader>(std::move(inner)));
  }
};

TEST_CASE("debug: ids that a lookup refuses fail the call, and only that call") {
  if (device() != "cuda_emu") return;
  const auto bundle = open("weights/demo/adult_widedeep.h5");
  const HostMemory memory;
  ModelOptions options = small_options(device());
  options.timestamps = true;
  auto store = std::make_unique<ShrunkenStore>(make_resident_store(memory.b.api, memory.b.device, 0));
  auto made = Model::create(*bundle, options, std::move(store));
  REQUIRE_MESSAGE(made.ok(), made.status().message());
  RandomBatch batch(made.value()->engine().schema(), 20, 0, 11);
  std::vector<float> out(20, kNaN);
  const Status refused = made.value()->predict(batch.batch, out.data(), {});
  CHECK(refused.code() == Code::kInternal);
  CHECK(refused.message().find("outside their tables") != std::string::npos);
  const std::vector<int64_t> zeros(static_cast<size_t>(batch.batch.item.nnz), 0);
  batch.batch.item.ids = zeros.data();
  const Status accepted = made.value()->predict(batch.batch, out.data(), {});
  CHECK_MESSAGE(accepted.ok(), accepted.message());
}

/// The nodes of the graph that a context captures for calls of `rows` rows.
std::string captured_nodes(const std::string& file, bool fold, int64_t rows,
                           const std::string& tuning = "off", bool strict = false,
                           const std::string& fetch = "kernel") {
  const auto bundle = open(file);
  ModelOptions options = small_options(device());
  options.max_rows = rows;
  options.fold = fold;
  options.tuning = tuning;
  options.strict = strict;
  options.fetch = fetch;
  auto engine = Engine::create(*bundle, options);
  REQUIRE_MESSAGE(engine.ok(), engine.status().message());
  auto context = Context::create(*engine.value(), rows, options.max_nnz);
  REQUIRE(context.ok());
  const RandomBatch request(engine.value()->schema(), rows, 0, 3);
  std::vector<float> out(static_cast<size_t>(rows * engine.value()->heads()), kNaN);
  for (int pass = 0; pass < 2; ++pass) REQUIRE(context.value()->run(request.batch, out.data(), {}).ok());
  return context.value()->graph_text(rows);
}

// One file per model: what is launched, copied and waited for, in the order of issue, with and without folds.
// DPI_UPDATE_GOLDEN=1 rewrites them after a change that was meant.
TEST_CASE("captured graphs are those on record") {
  if (device() != "cuda_emu") return;
  const std::pair<const char*, const char*> models[] = {{"widedeep", "weights/demo/adult_widedeep.h5"},
                                                        {"deepfm", "weights/demo/msweb_deepfm.h5"},
                                                        {"dcn", "tests/e2e/golden/fx_dcn.h5"},
                                                        {"dcnv2", "weights/demo/bank_dcnv2.h5"}};
  for (const auto& [name, file] : models) {
    CAPTURE(std::string(name));
    std::string text = "fetched, 8 rows\n" + captured_nodes(file, true, 8);
    text += "\nfetched, 8 rows, fold off\n" + captured_nodes(file, false, 8);
    text += "\ncopied, 1024 rows\n" + captured_nodes(file, true, 1024, "off", false, "copy");
    const std::string path = source_dir() + "/tests/runtime/golden/" + name + ".txt";
    if (std::getenv("DPI_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
    std::ostringstream recorded;
    recorded << std::ifstream(path).rdbuf();
    CHECK(text == recorded.str());
    CHECK(text.find("kernel") != std::string::npos);
  }
}

/// A tuning table of one line, for any device.
struct TuningFile {
  std::string path = (std::filesystem::temp_directory_path() / "dpi_lookup_tuning_XXXXXX").string();

  TuningFile() { close(mkstemp(path.data())); }
  ~TuningFile() { std::filesystem::remove(path); }
  const std::string& with(const std::string& line) const {
    std::ofstream(path) << "dpi-tuning 1\ndevice *\ncapability 0\ncublaslt 0\n" << line << "\n";
    return path;
  }
};

TEST_CASE("a tuning table chooses the lookup, where its line fits") {
  if (device() != "cuda_emu") return;
  const TuningFile file;
  const auto has = [&](const char* line, const char* kernel) {
    CAPTURE(line);
    const std::string nodes = captured_nodes("weights/demo/bank_dcnv2.h5", true, 8, file.with(line));
    CHECK(nodes.find(kernel) != std::string::npos);
  };
  has("lookup * * * * * * auto 0 0 0 stream off plain 1", "lookup_copy_kernel<4,");
  has("lookup * * * * * * rows 0 0 0 stream off plain 1", "lookup_rows_kernel<4,");
  has("lookup 8 * no no f32 f32 rows 8 0 128 keep off plain 1.5", "lookup_rows_kernel<8,");
  has("lookup 32 * * * * * rows 0 0 0 stream off plain 1",
      "lookup_rows_kernel<4,");  // measured with 4 x as many
  has("lookup 2 * * * * * rows 0 0 0 stream off plain 1", "lookup_rows_kernel<4,");   // with a quarter
  has("lookup 33 * * * * * rows 0 0 0 stream off plain 1", "lookup_copy_kernel<4,");  // too far away
  has("lookup 1 * * * * * rows 0 0 0 stream off plain 1", "lookup_copy_kernel<4,");
  has("lookup * * * * * * copy 0 0 0 stream off plain 1\nlookup 7 * * * * * copy 0 0 0 stream off plain 1\n"
      "lookup 16 * * * * * rows 0 0 0 stream off plain 1",
      "lookup_rows_kernel<4,");  // the nearest of at least as many rows
  const std::string& rows =
      file.with("lookup * * * * * * rows 0 0 0 stream off plain 1");  // strict: the rules alone
  CHECK(captured_nodes("weights/demo/bank_dcnv2.h5", true, 8, rows, true).find("lookup_copy_kernel<4,") !=
        std::string::npos);
  has("lookup * * * yes * * rows 0 0 0 stream off plain 1", "lookup_copy_kernel<4,");  // no bags here
  has("lookup * * * * f16 * rows 0 0 0 stream off plain 1", "lookup_copy_kernel<4,");  // f32 tables
}

TEST_CASE("a tuning table with a wrong line about lookups refuses the load and names the line") {
  if (device() != "cuda_emu") return;
  const TuningFile file;
  for (const char* line :
       {"lookup", "lookup x * * * * * rows 0 0 0 stream off plain 1",
        "lookup * -4 * * * * rows 0 0 0 stream off plain 1",
        "lookup * * maybe * * * rows 0 0 0 stream off plain 1",
        "lookup * * * * f64 * rows 0 0 0 stream off plain 1",
        "lookup * * * * * * input_first 0 0 0 stream off plain 1",
        "lookup * * * * * * rows 5 0 0 stream off plain 1",
        "lookup * * * * * * rows 0 0 999 stream off plain 1", "lookup * * * * * * rows 0 0 0 hot off plain 1",
        "lookup * * * * * * rows 0 0 0 stream 1 plain 1",
        "lookup * * * * * * rows 0 0 0 stream off plain nan",
        "lookup * * * * * * rows 0 0 0 stream off hot 1"}) {
    CAPTURE(line);
    const auto bundle = open("weights/demo/bank_dcnv2.h5");
    ModelOptions options = small_options(device());
    options.tuning = file.with(line);
    const auto engine = Engine::create(*bundle, options);
    REQUIRE_FALSE(engine.ok());
    CHECK(engine.status().message().find("line 5") != std::string::npos);
  }
}

TEST_CASE("breadth-first issue overlaps the branches, one stream does not") {
  if (device() != "cuda_emu") return;
  const auto bundle = open("weights/demo/bank_dcnv2.h5");
  const auto overlap = [&](ScheduleMode mode) {
    ModelOptions options = small_options(device());
    options.timestamps = true;
    options.fold = false;
    options.schedule = mode;
    auto engine = Engine::create(*bundle, options);
    REQUIRE_MESSAGE(engine.ok(), engine.status().message());
    auto context = Context::create(*engine.value(), 16, options.max_nnz);
    REQUIRE(context.ok());
    const RandomBatch request(engine.value()->schema(), 16, 0, 3);
    std::vector<float> out(16, kNaN);
    REQUIRE(context.value()->run(request.batch, out.data(), {}).ok());
    return report_overlap(context.value()->timeline());
  };
  const OverlapReport breadth = overlap(ScheduleMode::kBreadthFirst);
  const OverlapReport single = overlap(ScheduleMode::kSingleStream);
  CHECK(breadth.overlap_us > 0.2f * breadth.total_us);
  CHECK(breadth.start_order.size() == 2);
  CHECK(single.overlap_us == 0.0f);
  CHECK(single.total_us > breadth.total_us);
}

}  // namespace
}  // namespace dpi::test::device_calls_test
