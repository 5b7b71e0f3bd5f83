// Random models: every plan passes the checker and computes what the primitives compute; planted faults are
// found.
#include <doctest/doctest.h>

#include <cmath>

#include "support/interpreter.hpp"
#include "support/random_models.hpp"
#include "support/sanitizer.hpp"

namespace dpi::test::random_test {
namespace {

// The faults of tests/mutants/plan that only the first case finds fell to models 13, 16, 23, 31 and 335;
// three times as many as the last of them.
constexpr uint32_t kModels = some_of(1000u);
constexpr int64_t kRows = 5, kShared = 2;

Plan plan_of(const Graph& graph, bool fold, bool fuse, ScheduleMode schedule) {
  PlanOptions options;
  options.fold = fold;
  options.fuse = fuse;
  options.schedule = schedule;
  Result<Plan> p = make_plan(graph, options);
  REQUIRE_MESSAGE(p.ok(), p.status().message());
  return std::move(p).value();
}

Status check(const Plan& plan) {
  const Result<MemoryPlan> memory = plan_memory(plan, kRows, kShared, 64);
  if (!memory.ok()) return memory.status();
  return check_plan(plan, memory.value(), kRows, kShared);
}

/// True when all pairs agree, relative to the larger of 1 and the expected value; a result that is NaN does
/// not. Pairs whose expected value is not finite or beyond 1e4 are left out.
bool agree(const std::vector<float>& got, const std::vector<float>& expected,
           const std::vector<PlanHead>& heads, bool logits) {
  for (size_t i = 0; i < got.size(); ++i) {
    if (logits && heads[i % heads.size()].logit < 0) continue;
    const double e = expected[i];
    if (!std::isfinite(e) || std::fabs(e) > 1e4) continue;  // a product of many factors: no digit to compare
    if (!(std::fabs(static_cast<double>(got[i]) - e) <= 1e-3 * std::max(1.0, std::fabs(e)))) return false;
  }
  return true;
}

std::string values_text(const Scores& s) {
  std::string text;
  for (float v : s.value) text += std::to_string(v) + " ";
  text += "| ";
  for (float v : s.logit) text += std::to_string(v) + " ";
  return text;
}

TEST_CASE("plans of random models are sound and keep the scores") {
  for (uint32_t seed = 1; seed <= kModels; ++seed) {
    ModelBuilder b = random_model(seed);
    const Graph graph = b.graph();
    const Plan plain = plan_of(graph, false, false, ScheduleMode::kSingleStream);
    const TestBatch batch = random_batch(plain.features, kRows, kShared, seed);
    const Scores expected = interpret(plain, batch, b.tables());
    for (int variant = 0; variant < 12; ++variant) {
      const Plan plan = plan_of(graph, variant & 1, variant & 2, static_cast<ScheduleMode>(variant / 4));
      const Status sound = check(plan);
      if (!sound.ok())
        FAIL("model " << seed << " variant " << variant << ": " << sound.message() << "\n"
                      << dump_plan(plan));
      const Scores got = interpret(plan, batch, b.tables(), variant / 4 == 0);
      const bool same = agree(got.value, expected.value, plan.heads, false) &&
                        agree(got.logit, expected.logit, plan.heads, true);
      if (!same)
        FAIL("model " << seed << " variant " << variant << ": other scores " << values_text(got)
                      << " expected " << values_text(expected) << "\n"
                      << dump_plan(plain) << dump_plan(plan));
    }
  }
}

TEST_CASE("a dropped event is found") {
  int planted = 0;
  for (uint32_t seed = 1; seed <= 400; ++seed) {
    ModelBuilder b = random_model(seed);
    const Plan plan = plan_of(b.graph(), false, seed % 2 == 0, ScheduleMode::kBreadthFirst);
    for (size_t i = 0; i < plan.ops.size(); ++i) {
      for (size_t k = 0; k < plan.ops[i].waits.size(); ++k) {
        Plan broken = plan;
        broken.ops[i].waits.erase(broken.ops[i].waits.begin() + static_cast<int64_t>(k));
        const Result<MemoryPlan> memory = plan_memory(plan, kRows, kShared, 64);
        REQUIRE(memory.ok());
        CHECK_FALSE(check_plan(broken, memory.value(), kRows, kShared).ok());
        ++planted;
      }
    }
  }
  CHECK(planted >= 300);
}

TEST_CASE("a dropped wait at the end is found") {
  int planted = 0;
  for (uint32_t seed = 1; seed <= 1000; ++seed) {
    ModelBuilder b = random_model(seed);
    Plan plan = plan_of(b.graph(), false, false, ScheduleMode::kBreadthFirst);
    if (plan.end_waits.empty()) continue;
    plan.end_waits.pop_back();
    CHECK_FALSE(check(plan).ok());
    ++planted;
  }
  CHECK(planted >= 10);
}

/// Takes two values that are in use at the same time, gives both the same place, and expects check_plan to
/// object.
TEST_CASE("an overlapping offset is found") {
  int planted = 0;
  for (uint32_t seed = 1; seed <= 400; ++seed) {
    ModelBuilder b = random_model(seed);
    const Plan plan = plan_of(b.graph(), false, seed % 2 == 0, ScheduleMode::kBreadthFirst);
    const Result<MemoryPlan> memory = plan_memory(plan, kRows, kShared, 64);
    REQUIRE(memory.ok());
    for (const PlanOp& op : plan.ops) {
      for (int32_t in : op.inputs) {
        const int32_t out = op.outputs[0];
        if (in < 0 || out < 0) continue;
        MemoryPlan broken = memory.value();
        const int64_t from = broken.offset[static_cast<size_t>(in)];
        if (from < 0 || broken.offset[static_cast<size_t>(out)] < 0) continue;
        broken.offset[static_cast<size_t>(out)] = from;
        broken.arena_bytes += 1 << 16;
        CHECK_FALSE(check_plan(plan, broken, kRows, kShared).ok());
        ++planted;
      }
    }
  }
  CHECK(planted >= 300);
}

TEST_CASE("swapped ops, lost writers and wrong aliases are found") {
  ModelBuilder b = random_model(7);
  const Plan plan = plan_of(b.graph(), false, true, ScheduleMode::kSingleStream);
  REQUIRE(plan.ops.size() > 2);
  Plan swapped = plan;
  std::swap(swapped.ops.front(), swapped.ops.back());
  CHECK_FALSE(check(swapped).ok());
  Plan lost = plan;
  lost.ops.erase(lost.ops.begin());
  CHECK_FALSE(check(lost).ok());
  for (size_t v = 0; v < plan.values.size(); ++v) {
    if (plan.values[v].storage != Storage::kAlias) continue;
    Plan wrong = plan;
    wrong.values[v].column += 1 << 20;
    CHECK_FALSE(check(wrong).ok());
  }
}

TEST_CASE("single-stream memory reuses bytes") {
  ModelBuilder b = random_model(3);
  const Plan plan = plan_of(b.graph(), false, false, ScheduleMode::kSingleStream);
  const Result<MemoryPlan> memory = plan_memory(plan, 64, 64, 64);
  REQUIRE(memory.ok());
  int64_t sum = 0;
  for (const PlanValue& v : plan.values) {
    if (v.storage == Storage::kArena && !v.is_bags) sum += v.dims.size() * 64 * 4;
  }
  CHECK(memory->arena_bytes < sum);
  CHECK_FALSE(plan_memory(plan, 64, 64, 48).ok());
  CHECK_FALSE(plan_memory(plan, INT64_MAX / 8, 64, 64).ok());
}

}  // namespace
}  // namespace dpi::test::random_test
