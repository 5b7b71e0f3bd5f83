#include <doctest/doctest.h>

#include "kernels/recorded.hpp"

TEST_CASE("mask: agrees with float64") { dpi::test::check_recorded("Mask"); }
TEST_CASE("mask: agrees with ref over many rows") { dpi::test::check_against_ref("Mask"); }
