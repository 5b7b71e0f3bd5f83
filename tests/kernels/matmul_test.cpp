#include <doctest/doctest.h>

#include "kernels/recorded.hpp"

TEST_CASE("matmul: agrees with float64") { dpi::test::check_recorded("MatMul"); }
