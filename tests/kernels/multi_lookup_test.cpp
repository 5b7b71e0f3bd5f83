#include <doctest/doctest.h>

#include "kernels/recorded.hpp"

TEST_CASE("multi_lookup: agrees with float64") { dpi::test::check_recorded("MultiLookup"); }
TEST_CASE("multi_lookup: agrees with ref over many rows") { dpi::test::check_against_ref("MultiLookup"); }
