// A whole plan in one kernel against the reference kernels, one op after another: the paper's models and
// random ones, in every precision, with clusters of every size where the device emulates them.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "backend/small_batch_runner.hpp"
#include "support/device.hpp"
#include "support/paper_models.hpp"
#include "support/random_models.hpp"

namespace dpi::test::small_batch_test {
namespace {

constexpr PaperModel kModels[] = {PaperModel::kWideDeep, PaperModel::kDeepFm, PaperModel::kDcn,
                                  PaperModel::kDcnV2};
constexpr const char* kPrecisions[] = {"fp32", "tf32", "fp16", "bf16"};
/// Largest error of a logit, relative to 1 + |logit|.
constexpr double kTolerances[] = {1e-5, 2e-3, 5e-3, 2e-2};
constexpr int kRanks[] = {1, 2, 4, 8};

bool is_emulated() { return device() == "cuda_emu"; }

/// The emulation uses clusters of this size; a GPU chooses.
void use_ranks(int n) { setenv("DPI_EMU_RANKS", std::to_string(n).c_str(), 1); }

Plan plan_of(ModelBuilder& b, bool fold = true) {
  PlanOptions options;
  options.fold = fold;
  Result<Plan> p = make_plan(b.graph(), options);
  REQUIRE_MESSAGE(p.ok(), p.status().message());
  Plan plan = std::move(p).value();
  for (PlanOp& op : plan.ops) op.bind_pointers();
  return plan;
}

/// NaN of both counts as equal, of one as infinitely far.
double worst_error(const std::vector<float>& got, const std::vector<float>& want) {
  REQUIRE(got.size() == want.size());
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double g = got[i], w = want[i];
    if ((std::isnan(g) && std::isnan(w)) || g == w) continue;
    const double error = std::fabs(g - w) / (1 + std::fabs(w));
    if (!(error <= worst)) worst = std::isnan(error) ? INFINITY : error;
  }
  return worst;
}

void check_rows(SmallBatchRunner& runner, const Plan& plan, const ModelBuilder& b, int64_t rows,
                double tolerance) {
  const TestBatch batch = random_batch(plan.features, rows, 0, static_cast<uint32_t>(rows));
  const Scores want = interpret(plan, batch, b.tables());
  const Result<Scores> got = runner.run(batch);
  CAPTURE(rows);
  REQUIRE_MESSAGE(got.ok(), got.status().message());
  CHECK(worst_error(got.value().logit, want.logit) <= tolerance);
  CHECK(worst_error(got.value().value, want.value) <= tolerance);
}

bool has_shared(const Plan& plan) {
  for (const FeatureSpec& f : plan.features) {
    if (f.space == RowSpace::kShared) return true;
  }
  return false;
}

TEST_CASE("small batch: the paper's models in every precision and cluster size") {
  PaperShape shape;
  shape.hidden = {72, 33, 16};
  shape.categoricals = 7;
  shape.numerics = 3;
  for (const PaperModel m : kModels) {
    ModelBuilder b = paper_model(m, shape);
    const Plan plan = plan_of(b);
    for (int32_t precision = 0; precision < 4; ++precision) {
      for (const int ranks : kRanks) {
        use_ranks(ranks);
        SmallBatchRunner runner(plan, b.tables(), precision);
        CAPTURE(paper_model_name(m));
        CAPTURE(kPrecisions[precision]);
        CAPTURE(runner.report());
        REQUIRE(runner.accepted());
        CHECK(runner.max_rows() >= 16);
        check_rows(runner, plan, b, 17, kTolerances[precision]);
      }
    }
  }
}

TEST_CASE("small batch: batches around the size of a tile") {
  PaperShape shape;
  shape.hidden = {24, 8};
  shape.categoricals = 4;
  shape.numerics = 2;
  shape.dim = 5;
  use_ranks(2);
  for (const PaperModel m : kModels) {
    ModelBuilder b = paper_model(m, shape);
    const Plan plan = plan_of(b);
    for (int32_t precision = 0; precision < 4; ++precision) {
      SmallBatchRunner runner(plan, b.tables(), precision);
      CAPTURE(paper_model_name(m));
      CAPTURE(runner.report());
      REQUIRE(runner.accepted());
      for (const int64_t rows : {1, 2, 3, 15, 16, 17, 31, 33, 64})
        check_rows(runner, plan, b, rows, kTolerances[precision]);
    }
  }
}

#ifdef DPI_MEASURE
/// Inputs end where nothing is: rows past the end of the batch are not read.
TEST_CASE("small batch: inputs read in place, up to the last row and no further") {
  PaperShape shape;
  shape.hidden = {24, 8};
  shape.categoricals = 5;
  shape.numerics = 2;
  shape.dim = 5;
  for (const PaperModel m : kModels) {
    ModelBuilder b = paper_model(m, shape);
    const Plan plan = plan_of(b);
    for (const int ranks : kRanks) {
      use_ranks(ranks);
      SmallBatchRunner fetched(plan, b.tables(), 2);
      SmallBatchRunner runner(plan, b.tables(), 2, false, "default", true);
      CAPTURE(paper_model_name(m));
      CAPTURE(ranks);
      CAPTURE(runner.report());
      REQUIRE((runner.accepted() && runner.in_place()));
      CHECK(!fetched.in_place());
      for (const int64_t rows : {1, 3, 16, 17, 31, 64}) {
        check_rows(runner, plan, b, rows, kTolerances[2]);
        const TestBatch batch = random_batch(plan.features, rows, 0, 5);
        const Result<Scores> got = runner.run(batch), want = fetched.run(batch);
        REQUIRE((got.ok() && want.ok()));
        CHECK(got.value().logit == want.value().logit);
      }
    }
  }
}

/// Random models have bags, wide inputs and lookups of one id by several tables: in place or fetched, and
/// right.
TEST_CASE("small batch: random models asked to read in place") {
  int in_place = 0, fetched = 0;
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    ModelBuilder b = random_model(seed);
    const Plan plan = plan_of(b, seed % 2 == 0);
    if (has_shared(plan)) continue;
    use_ranks(kRanks[seed % 4]);
    SmallBatchRunner runner(plan, b.tables(), 0, false, "default", true);
    CAPTURE(seed);
    CAPTURE(runner.report());
    if (!runner.accepted()) continue;
    ++(runner.in_place() ? in_place : fetched);
    check_rows(runner, plan, b, seed % 3 == 0 ? 17 : 5, 2e-5);
  }
  CHECK(in_place >= 3);
  CHECK(fetched >= 3);
}
#endif

/// A tuning table of one line, for any device.
std::string table_with(const std::string& line) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("dpi_small_batch_" + std::to_string(getpid()) + ".txt"))
          .string();
  std::ofstream(path) << "dpi-tuning 1\ndevice *\ncapability 0\ncublaslt 0\n" << line << "\n";
  return path;
}

/// Elements of all Dense weights, by which a table's line is found.
int64_t weights_of(PaperModel m, const PaperShape& shape) {
  const int64_t n = (shape.numerics + shape.categoricals) * shape.dim;
  int64_t weights = m == PaperModel::kDcnV2 ? shape.cross_layers * n * n : 0;
  int64_t width = m == PaperModel::kDcnV2 ? n : shape.categoricals * shape.dim + shape.numerics;
  for (const int64_t h : shape.hidden) {
    weights += width * h;
    width = h;
  }
  return weights;
}

/// The model has to fit `shared` bytes; whether it is worth it is left to the table.
void check_own_shape(PaperModel m, const PaperShape& shape, int32_t precision, int ranks, int shared) {
  const int64_t weights = weights_of(m, shape);
  const std::string tuning =
      table_with(std::string("small_batch ") + kPrecisions[precision] + " " + std::to_string(weights) +
                 (precision == 0 ? " simt " : " tensor ") + std::to_string(ranks) + " 4 64 off 1");
  ModelBuilder b = paper_model(m, shape);
  const Plan plan = plan_of(b);
  use_ranks(ranks);
  setenv("DPI_EMU_SHARED", std::to_string(shared).c_str(), 1);
  SmallBatchRunner runner(plan, b.tables(), precision, false, tuning);
  unsetenv("DPI_EMU_SHARED");
  CAPTURE(paper_model_name(m));
  CAPTURE(runner.report());
  if (!is_emulated() && !runner.accepted()) return;  // a smaller GPU
  REQUIRE(runner.accepted());
  CHECK(runner.max_rows() == 64);
  check_rows(runner, plan, b, 3, kTolerances[precision]);
}

TEST_CASE("small batch: ops of other numbers of rows are refused") {
  PaperShape shape;
  shape.hidden = {16, 8};
  use_ranks(2);
  ModelBuilder b = paper_model(PaperModel::kDeepFm, shape);
  const Plan plan = plan_of(b);
  SmallBatchRunner runner(plan, b.tables(), 0);
  REQUIRE(runner.accepted());
  const TestBatch batch = random_batch(plan.features, 5, 1, 3);
  CHECK(runner.run(batch).ok());
  for (const int64_t more : {-1, 1}) {
    const Status s = runner.run(batch, more).status();
    CHECK(s.code() == Code::kInvalidArgument);
    CHECK_MESSAGE(s.message().find("got 5 and " + std::to_string(5 + more) + " rows") != std::string::npos,
                  s.message());
  }
}

TEST_CASE("small batch: the paper's own shape, on a GPU with clusters and on one with 99 KB and none") {
  constexpr int kH200 = 227 * 1024, kL4 = 99 * 1024;
  PaperShape shape;
  for (const PaperModel m : {PaperModel::kDeepFm, PaperModel::kDcnV2}) {
    for (const int32_t precision : {0, 2}) check_own_shape(m, shape, precision, 8, kH200);
  }
  check_own_shape(PaperModel::kDeepFm, shape, 2, 1, kL4);
  shape.dim = 32;  // 16-bit values alone fit
  shape.hidden = {256, 256, 256};
  check_own_shape(PaperModel::kDcnV2, shape, 2, 8, kH200);
}

/// Without a table, as on a GPU that nothing was measured on: 8 warps, the clusters that are estimated best.
TEST_CASE("small batch: DCNv2 in tf32 fits with one node a level") {
  if (!is_emulated()) return;
  ModelBuilder b = paper_model(PaperModel::kDcnV2, {});
  const Plan plan = plan_of(b);
  unsetenv("DPI_EMU_RANKS");
  setenv("DPI_EMU_WARPS", "8", 1);
  SmallBatchRunner runner(plan, b.tables(), 1);
  unsetenv("DPI_EMU_WARPS");
  CAPTURE(runner.report());
  REQUIRE(runner.accepted());
  CHECK(runner.report().find("chosen: small_batch, 7 levels") == 0);  // side by side there are 4
  check_rows(runner, plan, b, 3, kTolerances[1]);
}

struct Measured {
  PaperModel model;
  int32_t precision;
  int32_t ranks;
  int32_t warps;
  double micros;  // on an H200, from the first start to the end of the slowest warp
};

double estimate_in(const std::string& report) {
  const size_t end = report.find(" us a tile estimated");
  if (end == std::string::npos) return NAN;
  return std::strtod(report.c_str() + report.rfind(' ', end - 1), nullptr);
}

TEST_CASE("small batch: estimates of shapes that were measured") {
  if (!is_emulated()) return;
  constexpr Measured kMeasured[] = {
      {PaperModel::kDeepFm, 2, 8, 8, 23.0},  {PaperModel::kDeepFm, 2, 8, 16, 23.6},
      {PaperModel::kDeepFm, 1, 8, 8, 24.0},  {PaperModel::kDeepFm, 2, 4, 16, 26.9},
      {PaperModel::kDeepFm, 2, 2, 16, 35.7}, {PaperModel::kDeepFm, 2, 1, 8, 73.3},
      {PaperModel::kDcnV2, 2, 8, 4, 44.1},   {PaperModel::kDcnV2, 2, 8, 8, 36.6},
      {PaperModel::kDcnV2, 2, 8, 16, 34.1}};
  unsetenv("DPI_EMU_RANKS");
  for (const Measured& m : kMeasured) {
    ModelBuilder b = paper_model(m.model, {});
    const Plan plan = plan_of(b);
    const std::string shape = std::to_string(m.ranks) + " " + std::to_string(m.warps);
    const std::string line = std::string("small_batch ") + kPrecisions[m.precision] + " " +
                             std::to_string(weights_of(m.model, {})) + " tensor " + shape + " 256 off " +
                             std::to_string(m.micros);
    const SmallBatchRunner runner(plan, b.tables(), m.precision, false, table_with(line));
    CAPTURE(line);
    CAPTURE(runner.report());
    REQUIRE(runner.accepted());
    CHECK(runner.report().find(std::to_string(m.ranks) + " ranks x " + std::to_string(m.warps) + " warps") !=
          std::string::npos);
    CHECK(std::fabs(estimate_in(runner.report()) / m.micros - 1) < 0.15);
    if (getenv("SHOW") != nullptr) MESSAGE(line << ": " << runner.report());
  }
  std::filesystem::remove(table_with(""));
}

TEST_CASE("small batch: with up to 16 warps a block, DCNv2 takes more than 4") {
  if (!is_emulated()) return;
  ModelBuilder b = paper_model(PaperModel::kDcnV2, {});
  const Plan plan = plan_of(b);
  unsetenv("DPI_EMU_RANKS");
  setenv("DPI_EMU_WARPS", "16", 1);
  const SmallBatchRunner runner(plan, b.tables(), 2);
  unsetenv("DPI_EMU_WARPS");
  CAPTURE(runner.report());
  REQUIRE(runner.accepted());
  CHECK(runner.report().find("8 ranks x 4 warps") == std::string::npos);
  CHECK(estimate_in(runner.report()) < 38);
  if (getenv("SHOW") != nullptr) MESSAGE(runner.report());
}

TEST_CASE("small batch: random models, taken or refused with a reason") {
  int taken = 0;
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    ModelBuilder b = random_model(seed);
    for (const bool fold : {true, false}) {
      const Plan plan = plan_of(b, fold);
      if (has_shared(plan)) continue;
      use_ranks(kRanks[(seed + (fold ? 0 : 2)) % 4]);
      SmallBatchRunner runner(plan, b.tables(), 0);
      CAPTURE(seed);
      CAPTURE(runner.report());
      if (!runner.accepted()) {
        CHECK(runner.report().find("refused: small_batch: ") == 0);
        continue;
      }
      ++taken;
      const int64_t sizes[] = {1, 3, 16, 17, 33};
      check_rows(runner, plan, b, sizes[seed % 5], 2e-5);
    }
  }
  CHECK(taken >= 20);
}

TEST_CASE("small batch: ids outside their tables stay in their row and never become addresses") {
  PaperShape shape;
  shape.hidden = {16, 8};
  shape.categoricals = 3;
  shape.numerics = 1;
  use_ranks(4);
  ModelBuilder b = paper_model(PaperModel::kDeepFm, shape);
  const Plan plan = plan_of(b);
  SmallBatchRunner runner(plan, b.tables(), 2);
  REQUIRE(runner.accepted());
  TestBatch batch = random_batch(plan.features, 19, 0, 7);
  const Result<Scores> clean = runner.run(batch);
  for (size_t f = 0; f < plan.features.size(); ++f) {
    if (plan.features[f].is_slot()) batch.ids[f][18] = {f % 2 == 0 ? 2147483647 : -1};
  }
  const Result<Scores> got = runner.run(batch);
  REQUIRE_MESSAGE((clean.ok() && got.ok()), got.status().message());
  for (size_t r = 0; r < 18; ++r) CHECK(got.value().value[r] == clean.value().value[r]);
  CHECK(got.value().value[18] != clean.value().value[18]);
}

TEST_CASE("small batch: what it cannot do is refused with the reason") {
  PaperShape shape;
  shape.categoricals = 2;
  shape.hidden = {16};
  use_ranks(1);
  ModelBuilder b = paper_model(PaperModel::kDcnV2, shape);
  const Plan plan = plan_of(b);
  const SmallBatchRunner strict(plan, b.tables(), 0, true);
  CHECK(!strict.accepted());
  CHECK(strict.report().find("determinism=strict") != std::string::npos);

  setenv("DPI_EMU_SHARED", "40000", 1);
  const SmallBatchRunner small(plan, b.tables(), 0);
  unsetenv("DPI_EMU_SHARED");
  if (is_emulated()) {
    CHECK(!small.accepted());
    CHECK(small.report().find("a block has 40000") != std::string::npos);
  }

  ModelBuilder large = paper_model(PaperModel::kWideDeep, PaperShape());
  const Plan large_plan = plan_of(large);
  const SmallBatchRunner slow(large_plan, large.tables(), 0);  // all weights through one SM, no tensor cores
  if (is_emulated()) {
    CHECK(!slow.accepted());
    CHECK(slow.report().find("the ops one by one") != std::string::npos);
  }

  PlanOptions primitives;
  primitives.fold = false;
  primitives.fuse = false;
  Result<Plan> plain = make_plan(b.graph(), primitives);
  REQUIRE(plain.ok());
  for (PlanOp& op : plain.value().ops) op.bind_pointers();
  const SmallBatchRunner unfused(plain.value(), b.tables(), 0);
  CHECK(!unfused.accepted());
  CHECK(unfused.report().find("is not done in a small batch") != std::string::npos);
}

TEST_CASE("small batch: a tuning table decides shape, products and rows") {
  PaperShape shape;
  shape.categoricals = 3;
  shape.numerics = 0;
  shape.hidden = {40, 16};
  use_ranks(1);
  ModelBuilder b = paper_model(PaperModel::kWideDeep, shape);
  const Plan plan = plan_of(b);
  const std::string weights = std::to_string(48 * 40 + 40 * 16);
  const auto says = [&](const SmallBatchRunner& c, const char* what) {
    CAPTURE(c.report());
    CHECK(c.report().find(what) != std::string::npos);
  };
  {
    SmallBatchRunner c(plan, b.tables(), 0, false,
                       table_with("small_batch fp32 " + weights + " 3xtf32 4 2 48 on 5.5"));
    REQUIRE_MESSAGE(c.accepted(), c.report());
    if (is_emulated()) says(c, "4 ranks x 2 warps");
    CHECK(c.max_rows() == 48);
    for (const int64_t rows : {1, 16, 33, 48}) check_rows(c, plan, b, rows, 1e-5);
  }
  SmallBatchRunner other(plan, b.tables(), 2, false,
                         table_with("small_batch fp32 " + weights + " simt 4 2 48 off 5.5"));
  CHECK(other.max_rows() > 48);
  SmallBatchRunner never(plan, b.tables(), 0, false,
                         table_with("small_batch fp32 " + weights + " simt 1 4 0 off 5.5"));
  CHECK(!never.accepted());
  says(never, "measured faster");
  for (const char* wrong : {"small_batch fp32 1 tensor 1 4 0 off 1", "small_batch fp16 1 tensor 3 4 0 off 1",
                            "small_batch fp16 1 tensor 1 4 0 off", "small_batch fp16 1 tensor 1 17 0 off 1"})
    CHECK_THROWS(SmallBatchRunner(plan, b.tables(), 0, false, table_with(wrong)));
  std::filesystem::remove(table_with(""));
}

TEST_CASE("small batch: a batch larger than it said is an error, an empty one is nothing") {
  PaperShape shape;
  shape.categoricals = 2;
  shape.numerics = 0;
  shape.hidden = {16};
  use_ranks(2);
  ModelBuilder b = paper_model(PaperModel::kWideDeep, shape);
  const Plan plan = plan_of(b);
  SmallBatchRunner runner(plan, b.tables(), 0);
  REQUIRE_MESSAGE(runner.accepted(), runner.report());
  const int64_t most = runner.max_rows();
  const Result<Scores> refused = runner.run(random_batch(plan.features, most + 1, 0, 1));
  REQUIRE(!refused.ok());
  CHECK(refused.status().message().find(std::to_string(most) + " rows got") != std::string::npos);
  CHECK(runner.run(random_batch(plan.features, 0, 0, 1)).ok());
}

}  // namespace
}  // namespace dpi::test::small_batch_test
