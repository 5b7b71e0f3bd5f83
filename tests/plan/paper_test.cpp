// The paper's four models: every combination of fold, fuse and schedule computes the same scores as the
// primitives one by one, is accepted by the checker, and has the plan recorded in golden/.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "support/interpreter.hpp"
#include "support/paper_models.hpp"
#include "support/source_dir.hpp"

namespace dpi::test::paper_test {
namespace {

constexpr PaperModel kModels[] = {PaperModel::kWideDeep, PaperModel::kDeepFm, PaperModel::kDcn,
                                  PaperModel::kDcnV2};
struct Schedule {
  ScheduleMode mode = ScheduleMode::kBreadthFirst;
  StartOrder order = StartOrder::kCost;
};
constexpr Schedule kSchedules[] = {
    {ScheduleMode::kBreadthFirst, StartOrder::kCost},  {ScheduleMode::kBreadthFirst, StartOrder::kOps},
    {ScheduleMode::kBreadthFirst, StartOrder::kLight}, {ScheduleMode::kDepthFirst, StartOrder::kCost},
    {ScheduleMode::kDepthFirst, StartOrder::kOps},     {ScheduleMode::kDepthFirst, StartOrder::kLight},
    {ScheduleMode::kSingleStream, StartOrder::kCost}};

Plan plan_of(ModelBuilder& b, bool fold, bool fuse, Schedule schedule) {
  PlanOptions options;
  options.fold = fold;
  options.fuse = fuse;
  options.schedule = schedule.mode;
  options.order = schedule.order;
  Result<Plan> p = make_plan(b.graph(), options);
  REQUIRE_MESSAGE(p.ok(), p.status().message());
  return std::move(p).value();
}

double worst_difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!(d <= worst)) worst = d;
    if (std::isnan(worst)) return worst;
  }
  return worst;
}

void check_same_scores(ModelBuilder& b, const char* what) {
  const Plan plain = plan_of(b, false, false, {ScheduleMode::kSingleStream, StartOrder::kCost});
  const TestBatch batch = random_batch(plain.features, 7, 0, 3);
  const Scores expected = interpret(plain, batch, b.tables());
  for (bool fold : {false, true}) {
    for (bool fuse : {false, true}) {
      for (const Schedule& schedule : kSchedules) {
        const Plan plan = plan_of(b, fold, fuse, schedule);
        CAPTURE(what);
        CAPTURE(dump_plan(plan));
        const Result<MemoryPlan> memory = plan_memory(plan, 7, 0, 64);
        REQUIRE(memory.ok());
        const Status sound = check_plan(plan, memory.value(), 7, 0);
        CHECK_MESSAGE(sound.ok(), sound.message());
        for (bool late : {false, true}) {
          const Scores got = interpret(plan, batch, b.tables(), late);
          CHECK(worst_difference(got.value, expected.value) <= 2e-6);
          CHECK(worst_difference(got.logit, expected.logit) <= 2e-5);
        }
      }
    }
  }
}

TEST_CASE("folds, fusion and schedules do not change the paper's models") {
  for (PaperModel m : kModels) {
    for (bool batch_norm : {false, true}) {
      PaperShape shape;
      shape.hidden = {33, 20};
      shape.dim = 5;
      shape.batch_norm = batch_norm;
      ModelBuilder b = paper_model(m, shape);
      check_same_scores(b, paper_model_name(m));
    }
  }
}

TEST_CASE("with folds one of the paper's models has two branches left, DCNv2") {
  for (PaperModel m : kModels) {
    ModelBuilder b = paper_model(m, {});
    CHECK(plan_of(b, true, true, {}).n_streams == (m == PaperModel::kDcnV2 ? 2 : 1));
    CHECK(plan_of(b, false, true, {}).n_streams >= 2);
  }
}

TEST_CASE("plans of the paper's models are as recorded") {
  for (PaperModel m : kModels) {
    for (bool fold : {false, true}) {
      ModelBuilder b = paper_model(m, {});
      const std::string text = dump_plan(plan_of(b, fold, true, {}));
      const std::string path =
          source_dir() + "/tests/plan/golden/" + paper_model_name(m) + (fold ? "_fold" : "_nofold") + ".txt";
      if (std::getenv("DPI_UPDATE_GOLDEN")) std::ofstream(path) << text;
      std::ifstream file(path);
      std::stringstream recorded;
      recorded << file.rdbuf();
      CAPTURE(path);
      CHECK(text == recorded.str());
    }
  }
}

}  // namespace
}  // namespace dpi::test::paper_test
