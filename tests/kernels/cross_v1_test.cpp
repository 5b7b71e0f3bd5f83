#include <doctest/doctest.h>

#include "kernels/recorded.hpp"

TEST_CASE("cross_v1: agrees with float64") { dpi::test::check_recorded("CrossV1"); }
