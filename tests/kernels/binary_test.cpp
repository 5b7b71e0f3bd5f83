#include <doctest/doctest.h>

#include "kernels/recorded.hpp"

TEST_CASE("binary: agrees with float64") { dpi::test::check_recorded("Binary"); }
TEST_CASE("binary: agrees with ref over many rows") { dpi::test::check_against_ref("Binary"); }
