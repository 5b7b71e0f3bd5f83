#include <doctest/doctest.h>

#include "kernels/recorded.hpp"

TEST_CASE("softmax: agrees with float64") { dpi::test::check_recorded("Softmax"); }
TEST_CASE("softmax: agrees with ref over many rows") { dpi::test::check_against_ref("Softmax"); }
