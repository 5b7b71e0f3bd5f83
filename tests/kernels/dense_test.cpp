#include <doctest/doctest.h>

#include "kernels/recorded.hpp"

TEST_CASE("dense: agrees with float64") { dpi::test::check_recorded("Dense"); }
TEST_CASE("dense: agrees with ref over many rows") { dpi::test::check_against_ref("Dense"); }
