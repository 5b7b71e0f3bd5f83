// own_op copies everything; check_op refuses shapes that do not fit, and says which.
#include "ops/check_op.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "ops/table.hpp"
#include "support/recorded.hpp"

namespace dpi::backend::check_op_test {
namespace {

using kernels::Dims;
using kernels::OpKind;
using test::OpCase;

// A description of a recorded case; its arrays live as long as it does.
struct Description {
  std::vector<dpi_value_desc> inputs, outputs;
  std::vector<kernels::Param> params;
  std::vector<dpi_table_desc> tables;
  dpi_op_desc desc{};
};

dpi_value_desc describe(const test::CaseValue& v) {
  if (!v.present) return {};
  if (v.is_bags) return {{}, 1, 0, 0, kernels::DType::kF32};
  return {v.dims, 0, v.constant ? 1 : 0, v.constant ? 0 : v.dims.size(), kernels::DType::kF32};
}

Description describe(const OpCase& c) {
  Description d;
  for (const auto& v : c.inputs) d.inputs.push_back(describe(v));
  for (const auto& v : c.outputs) d.outputs.push_back(describe(v));
  for (const auto& p : c.params)
    d.params.push_back(p.present ? kernels::Param{p.data.data(), p.dims} : kernels::Param{});
  for (const auto& t : c.tables) d.tables.push_back({t.rows, t.dim, t.dtype});
  d.desc.kind = c.kind;
  d.desc.name = "the_op";
  d.desc.attrs = std::visit([](const auto& a) { return static_cast<const void*>(&a); }, c.attrs);
  d.desc.inputs = d.inputs.data();
  d.desc.outputs = d.outputs.data();
  d.desc.params = d.params.data();
  d.desc.tables = d.tables.data();
  d.desc.n_inputs = static_cast<int32_t>(d.inputs.size());
  d.desc.n_outputs = static_cast<int32_t>(d.outputs.size());
  d.desc.n_params = static_cast<int32_t>(d.params.size());
  d.desc.n_tables = static_cast<int32_t>(d.tables.size());
  return d;
}

Status check(const Description& d) {
  auto op = own_op(d.desc);
  return op.ok() ? check_op(op.value()) : std::move(op).status();
}

OpCase first_case(const std::string& op) {
  auto cases = test::recorded_cases(op);
  REQUIRE(cases.size() > 1);
  OpCase c = std::move(cases[1]);
  c.bind();
  return c;
}

std::vector<const char*> executed_ops() {
  std::vector<const char*> names;
  for (const OpForm& form : op_forms()) {
    if (is_executed(form.kind)) names.push_back(op_name(form.kind));
  }
  return names;
}

}  // namespace

TEST_CASE("check_op: every recorded case passes") {
  for (const char* op : executed_ops()) {
    auto cases = test::recorded_cases(op);
    for (OpCase& c : cases) {
      c.bind();
      const Status s = check(describe(c));
      CHECK_MESSAGE(s.ok(), c.name << ": " << s.message());
    }
  }
}

TEST_CASE("check_op: an output of another size is refused and named") {
  for (const char* name : executed_ops()) {
    const OpCase c = first_case(name);
    Description d = describe(c);
    for (dpi_value_desc& v : d.outputs) {
      if (v.dims.rank > 0) v.dims.d[v.dims.rank - 1] += 1;
      v.row_stride += 1000;
    }
    if (c.kind == OpKind::kMultiLookup) d.outputs[1].dims.d[0] += 1;
    const Status s = check(d);
    CHECK_MESSAGE(!s.ok(), name);
    CHECK_MESSAGE(s.message().find(std::string("op 'the_op' (") + name + ")") == 0, s.message());
    CHECK_MESSAGE(s.message().find(", expected ") != std::string::npos, s.message());
  }
}

TEST_CASE("check_op: a missing or wrong param is refused") {
  OpCase c = first_case("Linear");
  Description d = describe(c);
  d.params[0].data = nullptr;
  CHECK_FALSE(check(d).ok());
  auto with_bias = test::recorded_cases("Linear");
  with_bias[0].params[1].data.push_back(0);
  with_bias[0].params[1].dims.d[0] += 1;
  d = describe(with_bias[0]);
  CHECK(check(d).message() == "op 'the_op' (Linear): bias is [5], expected 4 elements");
  d = describe(c);
  d.outputs[0].row_stride = 0;
  CHECK(check(d).message() == "op 'the_op' (Linear): an output is a row stride of 0, expected at least 1");
}

TEST_CASE("own_op: Input, Const, unknown kinds and null attrs are refused") {
  dpi_op_desc d{};
  for (const int32_t kind : {0, 1, static_cast<int32_t>(kOpCount), -1, 1000}) {
    d.kind = static_cast<OpKind>(kind);
    CHECK(own_op(d).status().code() == Code::kUnsupported);
  }
  d.kind = OpKind::kUnary;
  CHECK(own_op(d).status().code() == Code::kInvalidArgument);
}

TEST_CASE("own_op: nothing of the description is needed afterwards") {
  Result<OwnedOp> owned = internal_error("not made");
  {
    OpCase c = first_case("Dense");
    owned = own_op(describe(c).desc);
    for (auto& p : c.params) p.data.assign(p.data.size(), -777);
    c.segments.assign(c.segments.size(), {});
  }
  REQUIRE(owned.ok());
  OwnedOp op = std::move(owned).value();
  const OwnedOp moved = std::move(op);
  CHECK(check_op(moved).ok());
  CHECK(moved.param(0).data[0] != -777);
  CHECK(moved.as<kernels::DenseAttrs>().segments == moved.segments.data());
  CHECK(moved.param(99).data == nullptr);
  CHECK(is_absent(moved.input(99)));
}

TEST_CASE("own_op: a dropped param keeps its dims") {
  const OpCase c = first_case("Linear");
  auto op = own_op(describe(c).desc);
  REQUIRE(op.ok());
  const Dims dims = op->param(0).dims;
  op->drop_param(0);
  CHECK(op->param(0).data == nullptr);
  CHECK(op->param(0).dims == dims);
}

}  // namespace dpi::backend::check_op_test
