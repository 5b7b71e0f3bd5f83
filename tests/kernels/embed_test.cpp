#include <doctest/doctest.h>

#include "kernels/recorded.hpp"

TEST_CASE("embed: agrees with float64") { dpi::test::check_recorded("Embed"); }
TEST_CASE("embed: agrees with ref over many rows") { dpi::test::check_against_ref("Embed"); }
