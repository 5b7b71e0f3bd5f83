#include <doctest/doctest.h>

#include "kernels/recorded.hpp"

TEST_CASE("matmul: agrees with float64") { dpi::test::check_recorded("MatMul"); }
TEST_CASE("matmul: agrees with ref over many rows") { dpi::test::check_against_ref("MatMul"); }
