#include <doctest/doctest.h>

#include "kernels/recorded.hpp"

TEST_CASE("elementwise: agrees with float64") { dpi::test::check_recorded("Elementwise"); }
TEST_CASE("elementwise: agrees with ref over many rows") { dpi::test::check_against_ref("Elementwise"); }
