#include <doctest/doctest.h>

#include "kernels/recorded.hpp"

TEST_CASE("reduce: agrees with float64") { dpi::test::check_recorded("Reduce"); }
TEST_CASE("reduce: agrees with ref over many rows") { dpi::test::check_against_ref("Reduce"); }
