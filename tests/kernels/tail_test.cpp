#include <doctest/doctest.h>

#include "kernels/recorded.hpp"

TEST_CASE("tail: agrees with float64") { dpi::test::check_recorded("Tail"); }
TEST_CASE("tail: agrees with ref over many rows") { dpi::test::check_against_ref("Tail"); }
