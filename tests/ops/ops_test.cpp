// What the compiler does not check of the op table.
#include <string>

#include <doctest/doctest.h>

#include "ops/owned_op.hpp"
#include "ops/table.hpp"

namespace dpi::ops_test {

TEST_CASE("ops: a primitive is found by its name, a fused form and any other name are not") {
  for (const OpForm& f : op_forms()) {
    CHECK((find_primitive(f.name) == nullptr) == (f.infer == nullptr));
    CHECK(op_name(f.kind) == f.name);
    CHECK(&form_of(f.kind) == &f);
  }
  CHECK(find_primitive("Scale") == nullptr);
  CHECK(find_primitive("") == nullptr);
  CHECK(std::string(op_name(OpKind::kCount)) == "?");
}

TEST_CASE("ops: the operands of a primitive have room for every input of the format") {
  for (const OpForm& f : op_forms()) {
    if (f.infer == nullptr || !is_executed(f.kind) || f.inputs.positions() == 0) continue;
    CHECK_MESSAGE(f.inputs.positions() >= static_cast<size_t>(f.max_inputs), f.name);  // a plan may give more
    for (size_t i = 0; i < f.inputs.positions(); ++i)
      CHECK_MESSAGE(f.inputs.may_lack(i) == (i >= static_cast<size_t>(f.min_inputs)), f.name);
  }
}

TEST_CASE("ops: names of positions") {
  constexpr Names kFixed{"x", "mask?"};
  static_assert(kFixed.positions() == 2 && !kFixed.may_lack(0) && kFixed.may_lack(1) && kFixed.may_lack(2));
  static_assert(Names{"x..."}.positions() == 0 && Names{"p...?"}.positions() == 0 && Names{}.size() == 0);
}

TEST_CASE("ops: what backends do not execute is refused by name") {
  dpi_op_desc d{};
  d.kind = OpKind::kConst;
  CHECK(own_op(d).status().message() == "Const is not executed by a backend");
  d.kind = OpKind::kInput;
  CHECK(own_op(d).status().message() == "Input is not executed by a backend");
  d.kind = OpKind::kCount;
  CHECK(own_op(d).status().code() == Code::kUnsupported);
  d.kind = OpKind::kLinear;
  CHECK(own_op(d).status().message() == "attrs is null");
}

TEST_CASE("ops: arrays behind attributes are copied and bound") {
  const kernels::DenseSegment segments[] = {{{}, 0, 3}, {{}, 3, 8}};
  const int64_t indices[] = {4, 1, 1};
  OpArrays arrays;
  OpAttrs dense = kernels::DenseAttrs{segments, 2};
  arrays.copy_from(dense);
  arrays.bind(&dense);
  const auto& d = std::get<kernels::DenseAttrs>(dense);
  REQUIRE(d.n_segments == 2);
  CHECK(d.segments == arrays.segments.data());
  CHECK(d.segments[1].end == 8);
  kernels::ViewAttrs picks;
  picks.indices = indices;
  picks.n_indices = 3;
  OpAttrs view = picks;
  arrays.copy_from(view);
  arrays.bind(&view);
  const auto& v = std::get<kernels::ViewAttrs>(view);
  REQUIRE(v.n_indices == 3);
  CHECK(v.indices == arrays.indices.data());
  CHECK(v.indices[0] == 4);
}

}  // namespace dpi::ops_test
