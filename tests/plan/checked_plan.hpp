// The plan of a model, made with options and passed by the independent checker.
#pragma once

#include <doctest/doctest.h>

#include <utility>

#include "plan/plan.hpp"
#include "support/model_builder.hpp"

namespace dpi::test {

inline Plan checked_plan(ModelBuilder& b, const PlanOptions& options = {}) {
  Result<Plan> p = make_plan(b.graph(), options);
  REQUIRE_MESSAGE(p.ok(), p.status().message());
  const Result<MemoryPlan> memory = plan_memory(p.value(), 9, 3, 64);
  REQUIRE(memory.ok());
  const Status sound = check_plan(p.value(), memory.value(), 9, 3);
  CHECK_MESSAGE(sound.ok(), sound.message());
  return std::move(p).value();
}

}  // namespace dpi::test
