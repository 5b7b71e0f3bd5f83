// debug.fetch=in_place: the small-batch kernel reads ids and numbers from the flight's staging memory itself.
// Scores are those of the fetched input to the bit, and within the precision of the reference backend; the
// graph has one node less.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "runtime/emu_control.hpp"
#include "runtime/execute/context.hpp"
#include "runtime/model/model.hpp"
#include "runtime/stated_bundle.hpp"
#include "support/device.hpp"
#include "support/full.hpp"
#include "support/paper_models.hpp"
#include "support/random_batch.hpp"
#include "support/source_dir.hpp"

namespace dpi::test::in_place_test {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr const char* kModels[] = {"widedeep", "deepfm", "dcn", "dcnv2", "numbers"};
constexpr Precision kPrecisions[] = {Precision::kFp32, Precision::kTf32, Precision::kFp16, Precision::kBf16};
/// Largest error of a logit, relative to 1 + |logit|.
constexpr double kTolerances[] = {1e-5, 2e-3, 5e-3, 2e-2};
constexpr const char* kRanks[] = {"1", "2", "4", "8"};
constexpr int64_t kBatches[] = {1, 3, 16, 17, 31, 64};

/// Inputs of one number, of several, and ids, in turn.
ModelBuilder model_of_numbers() {
  ModelBuilder b("numbers");
  std::vector<std::string> parts;
  int64_t width = 0;
  for (const int64_t n : {5, 1, 18, 3}) {
    parts.push_back(b.dense("x" + std::to_string(n), n));
    parts.push_back(b.embed(b.categorical("c" + std::to_string(n), 90), 90, 8));
    width += n + 8;
  }
  const std::string deep = b.unary("relu", b.linear(b.concat(parts), width, 24));
  const std::string logit = b.linear(deep, 24, 1);
  b.head("ctr", b.unary("sigmoid", logit), logit);
  return b;
}

ModelBuilder small_model(const std::string& name) {
  if (name == "numbers") return model_of_numbers();
  PaperModel kind = PaperModel::kWideDeep;
  for (const PaperModel m : {PaperModel::kDeepFm, PaperModel::kDcn, PaperModel::kDcnV2}) {
    if (name == paper_model_name(m)) kind = m;
  }
  PaperShape shape;
  shape.hidden = {40, 16};
  shape.categoricals = 7;
  shape.numerics = 3;
  shape.dim = 8;
  return paper_model(kind, shape);
}

ModelOptions options_with(const char* fetch, Precision precision = Precision::kFp32) {
  ModelOptions o;
  o.device = device();
  o.max_rows = 64;
  o.max_contexts = 1;
  o.precision = precision;
  o.small_batch = true;
  o.fetch = fetch;
  return o;
}

std::unique_ptr<Model> load(Bundle& bundle, const ModelOptions& options) {
  auto model = Model::create(bundle, options);
  REQUIRE_MESSAGE(model.ok(), model.status().message());
  return std::move(model).value();
}

bool reads_in_place(const Model& model) {
  const std::string& report = model.engine().small_batch_report();
  CAPTURE(report);
  REQUIRE(report.starts_with("chosen: small_batch"));
  const bool says = report.ends_with(", input read in place");
  CHECK(says == model.engine().small_batch_in_place());
  return says;
}

std::vector<float> logits_of(Model& model, const Batch& batch) {
  std::vector<float> scores(static_cast<size_t>(batch.item.rows * model.engine().heads()), kNaN);
  std::vector<float> logits = scores;
  RunControl control;
  control.logits = logits.data();
  const Status s = model.predict(batch, scores.data(), control);
  CHECK_MESSAGE(s.ok(), s.message());
  return logits;
}

/// NaN is never the same.
bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  for (const float x : a) {
    if (std::isnan(x)) return false;
  }
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

double relative_error(const std::vector<float>& got, const std::vector<float>& want) {
  double worst = got.size() == want.size() ? 0 : INFINITY;
  for (size_t i = 0; i < want.size() && i < got.size(); ++i) {
    const double error = std::fabs(double{got[i]} - want[i]) / (1 + std::fabs(double{want[i]}));
    if (!(error <= worst)) worst = std::isnan(error) ? INFINITY : error;
  }
  return worst;
}

/// One model, loaded to fetch and to read in place, and as the reference backend has it.
struct Pair {
  ModelBuilder builder;
  StatedBundle bundle;
  std::unique_ptr<Model> reference, fetched, in_place;

  Pair(const std::string& name, Precision precision, ModelOptions base)
      : Pair(small_model(name), with(std::move(base), precision)) {}
  Pair(ModelBuilder model, const ModelOptions& base) : builder(std::move(model)), bundle(builder, 1.0f) {
    ModelOptions o = base;
    o.fetch = "kernel";
    fetched = load(bundle, o);
    o.fetch = "in_place";
    in_place = load(bundle, o);
    CHECK_FALSE(reads_in_place(*fetched));
    CHECK(reads_in_place(*in_place));
    o.device = "ref";
    o.tuning = "off";
    o.precision = Precision::kFp32;
    o.small_batch = false;
    reference = load(bundle, o);
  }

  static ModelOptions with(ModelOptions o, Precision precision) {
    o.precision = precision;
    return o;
  }

  void check(int64_t rows, unsigned seed, double tolerance) {
    CAPTURE(rows);
    CAPTURE(seed);
    const RandomBatch request(reference->engine().schema(), rows, 0, seed);
    const std::vector<float> got = logits_of(*in_place, request.batch);
    CHECK(same_bits(got, logits_of(*fetched, request.batch)));
    CHECK(relative_error(got, logits_of(*reference, request.batch)) <= tolerance);
  }
};

TEST_CASE("in place: bits of the fetched input, every model, precision, cluster and batch") {
  int cases = 0;
  for (const std::string name : kModels) {
    for (size_t p = 0; p < 4; ++p) {
      for (const bool graphs : {true, false}) {
        const Setting ranks("DPI_EMU_RANKS", kRanks[static_cast<size_t>(cases++) % 4]);
        ModelOptions base = options_with("kernel");
        base.graphs = graphs;
        Pair pair(name, kPrecisions[p], base);
        CAPTURE(name);
        CAPTURE(p);
        CAPTURE(graphs);
        unsigned seed = 1;
        // Op by op, captured, replayed, each with rows of its own; the padding of one bucket is rows of
        // another.
        for (int pass = 0; pass < (graphs ? 3 : 1); ++pass) {
          for (const int64_t rows : kBatches) pair.check(rows, seed++, kTolerances[p]);
        }
        CHECK(pair.in_place->engine().uses_graphs() == graphs);
      }
    }
  }
}

TEST_CASE("in place: chunks in flight read each their own staging") {
  const EmuControl emu;
  for (const int64_t late : {0, 3, 20}) {  // us
    CAPTURE(late);
    const Setting ranks("DPI_EMU_RANKS", "2");
    ModelOptions base = options_with("kernel");
    base.max_rows = 16;
    base.in_flight = 4;
    Pair pair("deepfm", Precision::kFp32, base);
    emu.delay(0, late);
    for (unsigned seed = 1; seed <= 5; ++seed) pair.check(seed % 2 == 0 ? 150 : 95, seed, 1e-5);
    emu.delay(0, 0);
  }
}

/// The nodes of the graph that a context captures for calls of `rows` rows.
std::string captured_nodes(Bundle& bundle, const ModelOptions& options, int64_t rows) {
  auto engine = Engine::create(bundle, options);
  REQUIRE_MESSAGE(engine.ok(), engine.status().message());
  auto context = Context::create(*engine.value(), rows, options.max_nnz);
  REQUIRE(context.ok());
  const RandomBatch request(engine.value()->schema(), rows, 0, 3);
  std::vector<float> out(static_cast<size_t>(rows * engine.value()->heads()), kNaN);
  for (int pass = 0; pass < 2; ++pass) REQUIRE(context.value()->run(request.batch, out.data(), {}).ok());
  return context.value()->graph_text(rows);
}

TEST_CASE("in place: the graph is the one kernel") {
  const Setting ranks("DPI_EMU_RANKS", "4");
  for (const std::string name : kModels) {
    CAPTURE(name);
    ModelBuilder builder = small_model(name);
    StatedBundle bundle(builder, 1.0f);
    const std::string fetched = captured_nodes(bundle, options_with("kernel", Precision::kFp16), 64);
    CHECK(std::count(fetched.begin(), fetched.end(), '\n') == 2);
    CHECK(fetched.starts_with("0 kernel fetch_kernel <-\n1 kernel small_batch_kernel<"));
    CHECK(fetched.ends_with(" <- 0\n"));
    const std::string in_place = captured_nodes(bundle, options_with("in_place", Precision::kFp16), 64);
    CHECK(std::count(in_place.begin(), in_place.end(), '\n') == 1);
    CHECK(in_place.starts_with("0 kernel small_batch_kernel<"));
    CHECK(in_place.ends_with(" <-\n"));
  }
}

TEST_CASE("in place: a batch that the one kernel does not take is fetched or copied") {
  const Setting ranks("DPI_EMU_RANKS", "1");
  ModelBuilder builder = small_model("dcnv2");
  StatedBundle bundle(builder, 1.0f);
  ModelOptions options = options_with("in_place");
  options.max_rows = 1024;
  const std::string few = captured_nodes(bundle, options, 64);
  const std::string more = captured_nodes(bundle, options, 512);  // 256 rows are the most
  const std::string most = captured_nodes(bundle, options, 1024);
  CHECK(few.find("fetch_kernel") == std::string::npos);
  CHECK(more.starts_with("0 kernel fetch_kernel <-\n"));
  CHECK(more.find("small_batch_kernel") == std::string::npos);
  CHECK(most.find("small_batch_kernel") == std::string::npos);
  Pair pair("dcnv2", Precision::kFp32, options);
  unsigned seed = 1;
  const std::vector<int64_t> turns = full_run()
                                         ? std::vector<int64_t>{64, 512, 1024, 64, 512, 64, 1024, 512, 64}
                                         : std::vector<int64_t>{64, 512, 64, 512, 64};
  for (const int64_t rows : turns) pair.check(rows, seed++, 1e-5);
}

/// A tuning table of one line, for any device.
struct TuningFile {
  std::string path = (std::filesystem::temp_directory_path() / "dpi_in_place_XXXXXX").string();

  explicit TuningFile(const std::string& line) {
    close(mkstemp(path.data()));
    std::ofstream(path) << "dpi-tuning 1\ndevice *\ncapability 0\ncublaslt 0\n" << line << "\n";
  }
  ~TuningFile() { std::filesystem::remove(path); }
  TuningFile(const TuningFile&) = delete;
};

TEST_CASE("in place: batches of one bucket, with and without the one kernel, in turn") {
  PaperShape shape;
  shape.categoricals = 3;
  shape.numerics = 0;
  shape.hidden = {40, 16};
  ModelBuilder builder = paper_model(PaperModel::kWideDeep, shape);
  const TuningFile tuning("small_batch fp32 " + std::to_string(48 * 40 + 40 * 16) + " simt 2 4 48 off 5.5");
  ModelOptions options = options_with("kernel");
  options.graphs = false;  // else a batch is its bucket
  options.tuning = tuning.path;
  Pair pair(std::move(builder), options);
  CHECK(pair.in_place->engine().small_batch_max_rows() == 48);
  unsigned seed = 1;
  for (const int64_t rows : {60, 40, 64, 48, 33}) pair.check(rows, seed++, 1e-5);
}

TEST_CASE("in place: bags are fetched, and the report says why") {
  auto bundle = Bundle::open(source_dir() + "/weights/demo/msweb_deepfm.h5");
  REQUIRE(bundle.ok());
  const Setting ranks("DPI_EMU_RANKS", "2");
  ModelOptions options = options_with("in_place");
  const auto model = load(*bundle.value(), options);
  CHECK_FALSE(model->engine().small_batch_in_place());
  const std::string& report = model->engine().small_batch_report();
  CAPTURE(report);
  CHECK(report.find(", input fetched: op '") != std::string::npos);
  CHECK(report.ends_with("looks bags up"));
  CHECK(captured_nodes(*bundle.value(), options, 8).starts_with("0 kernel fetch_kernel <-\n"));
}

/// As wide as one input of 300 numbers is.
TEST_CASE("in place: more words a row than are staged are fetched") {
  ModelBuilder b("wide");
  const std::string x = b.concat({b.dense("x", 300), b.embed(b.categorical("c", 50), 50, 8)});
  const std::string logit = b.linear(b.unary("relu", b.linear(x, 308, 16)), 16, 1);
  b.head("ctr", b.unary("sigmoid", logit), logit);
  StatedBundle bundle(b, 1.0f);
  const Setting ranks("DPI_EMU_RANKS", "2");
  const auto model = load(bundle, options_with("in_place"));
  CHECK_FALSE(model->engine().small_batch_in_place());
  CHECK(model->engine().small_batch_report().ends_with(", input fetched: 301 words a row, at most 256"));
}

}  // namespace
}  // namespace dpi::test::in_place_test
