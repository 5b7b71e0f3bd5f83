#include <doctest/doctest.h>

#include "kernels/recorded.hpp"

TEST_CASE("concat: agrees with float64") { dpi::test::check_recorded("Concat"); }
