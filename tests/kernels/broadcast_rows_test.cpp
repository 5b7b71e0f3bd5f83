#include <doctest/doctest.h>

#include "kernels/recorded.hpp"

TEST_CASE("broadcast_rows: agrees with float64") { dpi::test::check_recorded("BroadcastRows"); }
TEST_CASE("broadcast_rows: agrees with ref over many rows") { dpi::test::check_against_ref("BroadcastRows"); }
