#include <doctest/doctest.h>

#include "kernels/recorded.hpp"

TEST_CASE("layer_norm: agrees with float64") { dpi::test::check_recorded("LayerNorm"); }
TEST_CASE("layer_norm: agrees with ref over many rows") { dpi::test::check_against_ref("LayerNorm"); }
