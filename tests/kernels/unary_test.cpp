#include <doctest/doctest.h>

#include "kernels/recorded.hpp"

TEST_CASE("unary: agrees with float64") { dpi::test::check_recorded("Unary"); }
TEST_CASE("unary: agrees with ref over many rows") { dpi::test::check_against_ref("Unary"); }
