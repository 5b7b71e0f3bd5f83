#include <doctest/doctest.h>

#include "kernels/recorded.hpp"

TEST_CASE("fm: agrees with float64") { dpi::test::check_recorded("Fm"); }
TEST_CASE("fm: agrees with ref over many rows") { dpi::test::check_against_ref("Fm"); }
