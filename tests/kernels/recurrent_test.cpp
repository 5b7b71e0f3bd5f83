#include <doctest/doctest.h>

#include "kernels/recorded.hpp"

TEST_CASE("recurrent: agrees with float64") { dpi::test::check_recorded("Recurrent"); }
TEST_CASE("recurrent: agrees with ref over many rows") { dpi::test::check_against_ref("Recurrent"); }
