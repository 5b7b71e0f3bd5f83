#include <doctest/doctest.h>

#include "kernels/recorded.hpp"

TEST_CASE("linear: agrees with float64") { dpi::test::check_recorded("Linear"); }
TEST_CASE("linear: agrees with ref over many rows") { dpi::test::check_against_ref("Linear"); }
