// Every op that a backend runs, over its recorded float64 results; an op without any fails.
#include <string>

#include <doctest/doctest.h>

#include "ops/table.hpp"
#include "support/recorded.hpp"

namespace dpi::test::ops_test {
namespace {

template <class Check>
void for_every_op(Check&& check) {
  for (const OpForm& form : op_forms()) {
    if (!is_executed(form.kind)) continue;
    SUBCASE(op_name(form.kind)) { check(std::string(form.name)); }
  }
}

}  // namespace

TEST_CASE("ops: agree with float64") { for_every_op(check_recorded); }
TEST_CASE("ops: agree with ref over many rows") { for_every_op(check_against_ref); }

}  // namespace dpi::test::ops_test
