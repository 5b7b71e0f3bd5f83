#include <doctest/doctest.h>

#include "kernels/recorded.hpp"

TEST_CASE("view: agrees with float64") { dpi::test::check_recorded("View"); }
TEST_CASE("view: agrees with ref over many rows") { dpi::test::check_against_ref("View"); }
