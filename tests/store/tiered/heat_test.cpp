// Which rows stay: how near the hit rate of Zipf(1.05) comes to that of the hottest rows, a tenth of all.
// Bounds are about two points below the least of four seeds. In brackets: misses and hits both counted one in
// 16, heats halved eight times as often, rows on probation gone before any other.
#include <doctest/doctest.h>

#include "support/zipf_traffic.hpp"

namespace dpi::test::heat_test {
namespace {

TEST_CASE("from rows that nobody asks for to the hottest ones, and on to others") {
  ZipfTraffic traffic({});
  traffic.load_first();
  CHECK(traffic.run(1) > 0.72);  // [0.63]
  traffic.run(14);
  CHECK(traffic.run(5) > 0.91);  // [0.82] lookups 15 to 20 of a place
  traffic.run(280);
  CHECK(traffic.run(20) > 0.955);  // [0.89]
  traffic.shift();
  traffic.run(15);
  CHECK(traffic.run(5) > 0.855);  // [0.86]
}

TEST_CASE("keys that are asked for once do not push out those that are asked for again") {
  ZipfTraffic traffic({});
  traffic.load_first();
  traffic.run(200);
  traffic.scan(1);
  CHECK(traffic.run(1) > 0.95);  // [0.87]
  traffic.run(20);
  traffic.scan(4);
  CHECK(traffic.run(1) > 0.93);  // [0.81]
}

TEST_CASE("what a list of the hottest keys gives is kept") {
  ZipfTraffic traffic({});
  traffic.load_hottest();
  for (int i = 0; i < 10; ++i) CHECK(traffic.run(10) > 0.95);  // [0.89]
}

}  // namespace
}  // namespace dpi::test::heat_test
