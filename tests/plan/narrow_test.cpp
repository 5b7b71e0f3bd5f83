// Which values narrow_activations halves: all that lookup, Dense, element-wise ops and the tail touch, whole
// buffers at a time, and nothing that another op touches.
#include <doctest/doctest.h>

#include <algorithm>

#include "plan/checked_plan.hpp"
#include "support/paper_models.hpp"

namespace dpi::test::narrow_test {
namespace {

using kernels::DType;

Plan plan_as(ModelBuilder& b, DType activation, uint32_t skip = 0) {
  PlanOptions options;
  options.activation = activation;
  options.skip = skip;
  return checked_plan(b, options);
}

const PlanValue& at(const Plan& p, int32_t v) { return p.values[static_cast<size_t>(v)]; }

/// Every narrow value is written and read by ops that can, and lies in rows of whole 16 bytes.
void check_narrow(const Plan& p, DType type) {
  for (const PlanOp& op : p.ops) {
    const bool dense =
        op.kind == OpKind::kDense || op.kind == OpKind::kElementwise || op.kind == OpKind::kBroadcastRows;
    for (const int32_t v : op.inputs) {
      if (v >= 0 && at(p, v).dtype != DType::kF32) CHECK((dense || op.kind == OpKind::kTail));
    }
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      const int32_t v = op.outputs[i];
      if (v >= 0 && at(p, v).dtype != DType::kF32)
        CHECK((dense || (op.kind == OpKind::kMultiLookup && i == 0)));
    }
  }
  for (const PlanValue& v : p.values) {
    if (v.dtype == DType::kF32) continue;
    CHECK(v.dtype == type);
    CHECK((v.storage == Storage::kArena || v.storage == Storage::kAlias));
    CHECK(v.row_stride % 8 == 0);
  }
}

int64_t narrow_values(const Plan& p) {
  return std::count_if(p.values.begin(), p.values.end(),
                       [](const PlanValue& v) { return v.dtype != DType::kF32; });
}

TEST_CASE("narrow: the paper's models keep their matrices in 16 bits, the channels in 32") {
  for (const PaperModel model :
       {PaperModel::kDeepFm, PaperModel::kDcn, PaperModel::kDcnV2, PaperModel::kWideDeep}) {
    for (const DType type : {DType::kF16, DType::kBF16}) {
      for (const uint32_t skip :
           {0u, uint32_t{kSkipMerge | kSkipElementwise}, uint32_t{kSkipLookup | kSkipTail}}) {
        ModelBuilder b = paper_model(model, {});
        const Plan p = plan_as(b, type, skip);
        check_narrow(p, type);
        if (skip != 0) continue;
        CAPTURE(dump_plan(p));
        CHECK(narrow_values(p) >= 2);
        const PlanOp& lookup = p.ops[0];
        REQUIRE(lookup.kind == OpKind::kMultiLookup);
        CHECK(at(p, lookup.outputs[0]).dtype == type);
        if (lookup.outputs.size() > 1 && lookup.outputs[1] >= 0)
          CHECK(at(p, lookup.outputs[1]).dtype == DType::kF32);
        CHECK(p.notes.back().find(type == DType::kF16 ? "precision: f16 in" : "precision: bf16 in") == 0);
      }
    }
  }
}

TEST_CASE("narrow: f32 changes nothing, i8 is refused") {
  ModelBuilder b = paper_model(PaperModel::kDcnV2, {});
  CHECK(dump_plan(plan_as(b, DType::kF32)) == dump_plan(std::move(make_plan(b.graph(), {})).value()));
  PlanOptions options;
  options.activation = DType::kI8;
  CHECK_FALSE(make_plan(b.graph(), options).ok());
}

TEST_CASE("narrow: one op that cannot keeps the whole buffer, and the note says which") {
  ModelBuilder b("mixed");
  std::vector<std::string> vectors;
  for (int i = 0; i < 4; ++i) vectors.push_back(b.embed(b.categorical("c" + std::to_string(i), 7), 7, 8));
  const std::string x = b.concat(vectors);
  const std::string norm = b.op("LayerNorm", {x}, {{"eps", 1e-5}});
  const std::string deep = b.linear(b.unary("relu", b.linear(norm, 32, 24)), 24, 1);
  b.head("ctr",
         b.unary("sigmoid", b.binary("add", deep, b.linear(b.unary("relu", b.linear(x, 32, 20)), 20, 1))));
  const Plan p = plan_as(b, DType::kF16);
  CAPTURE(dump_plan(p));
  check_narrow(p, DType::kF16);
  for (const PlanOp& op : p.ops) {
    if (op.kind != OpKind::kLayerNorm) continue;
    const PlanValue& in = at(p, op.inputs[0]);
    CHECK(in.dtype == DType::kF32);
    if (in.base >= 0) CHECK(at(p, in.base).dtype == DType::kF32);
    CHECK(at(p, op.outputs[0]).dtype == DType::kF32);
  }
  CHECK(p.notes.back().find("is touched by") != std::string::npos);
  CHECK(narrow_values(p) >= 1);
}

TEST_CASE("narrow: an op that cannot keeps the buffer of which its result is a column") {
  ModelBuilder b("column");
  std::vector<std::string> vectors;
  for (int i = 0; i < 3; ++i) vectors.push_back(b.embed(b.categorical("c" + std::to_string(i), 7), 7, 8));
  vectors[1] = b.op("LayerNorm", {b.unary("relu", b.linear(b.dense("d", 6), 6, 8))}, {{"eps", 1e-5}});
  const std::string x = b.concat(vectors);
  b.head("ctr", b.unary("sigmoid", b.linear(b.unary("relu", b.linear(x, 24, 20)), 20, 1)));
  const Plan p = plan_as(b, DType::kF16);
  CAPTURE(dump_plan(p));
  check_narrow(p, DType::kF16);
  bool found = false;
  for (const PlanOp& op : p.ops) {
    if (op.kind != OpKind::kLayerNorm) continue;
    const PlanValue& out = at(p, op.outputs[0]);
    found = out.column > 0;
    CHECK(out.dtype == DType::kF32);
    REQUIRE(out.base >= 0);
    CHECK(at(p, out.base).dtype == DType::kF32);
  }
  CHECK(found);
}

TEST_CASE("narrow: channels stay in 32 bits, however many there are") {
  ModelBuilder b("channels");
  std::vector<std::string> ids, vectors;
  for (int i = 0; i < 9; ++i) {
    ids.push_back(b.categorical("c" + std::to_string(i), 7));
    vectors.push_back(b.embed(ids.back(), 7, 8));
  }
  const std::string x = b.concat(vectors);
  for (const std::string& id : ids) {
    const std::string deep = b.linear(b.unary("relu", b.linear(x, 72, 20)), 20, 1);
    b.head("head of " + id, b.unary("sigmoid", b.binary("add", deep, b.embed(id, 7, 1))));
  }
  const Plan p = plan_as(b, DType::kF16);
  CAPTURE(dump_plan(p));
  check_narrow(p, DType::kF16);
  REQUIRE(p.ops[0].kind == OpKind::kMultiLookup);
  REQUIRE(p.ops[0].outputs[1] >= 0);
  CHECK(at(p, p.ops[0].outputs[1]).dims.size() == 9);
}

}  // namespace
}  // namespace dpi::test::narrow_test
