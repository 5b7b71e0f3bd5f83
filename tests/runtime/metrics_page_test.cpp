// Families of made-up counters against made_up_counters.txt, which tests/bindings/services reads with
// Prometheus' own parser, and samples of both formats.
#include "runtime/describe/metrics_page.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "support/source_dir.hpp"

namespace dpi {
namespace {

std::string file(const std::string& name) {
  std::ifstream in(test::source_dir() + "/tests/runtime/" + name, std::ios::binary);
  REQUIRE(in.good());
  return {std::istreambuf_iterator<char>(in), {}};
}

std::multiset<std::string> lines(const std::string& text) {
  std::multiset<std::string> found;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) found.insert(line);
  return found;
}

TEST_CASE("metrics page: made-up counters are families of Prometheus, times in seconds") {
  MetricsPage page({});
  page.counters(file("made_up_counters.json"), {});
  CHECK(lines(page.text()) == lines(file("made_up_counters.txt")));
}

TEST_CASE("metrics page: keys that are left out, labels of all samples, OpenMetrics") {
  MetricsPage page({true, false});
  page.counters("{\"calls\": 3, \"rows\": 4, \"waits\": 5}", {{"model", "a\"\\\n"}}, {"rows"});
  CHECK(page.text() ==
        "# HELP dpi_calls The library's counter `calls` since the model was loaded.\n"
        "# TYPE dpi_calls counter\n"
        "dpi_calls_total{model=\"a\\\"\\\\\\n\"} 3\n"
        "# HELP dpi_waits The library's counter `waits` since the model was loaded.\n"
        "# TYPE dpi_waits counter\n"
        "dpi_waits_total{model=\"a\\\"\\\\\\n\"} 5\n"
        "# EOF\n");
}

TEST_CASE(
    "metrics page: a histogram's bounds are inclusive, and its values stay where they are in a finer one") {
  HistogramShard<24> shard;
  for (const uint64_t v : {1, 2, 4, 5, 8, 9, 1000}) shard.record(v);
  shard.record(uint64_t{1} << 30);
  HistogramSums<24> sums;
  shard.add_to(&sums);
  MetricsPage page({});
  page.histogram("h", "H.", {{"l", "x"}}, sums, 1, 0);
  const auto has = [&](const std::string& line) { return lines(page.text()).count(line) == 1; };
  CHECK(has("h_bucket{l=\"x\",le=\"1.0\"} 1"));
  CHECK(has("h_bucket{l=\"x\",le=\"3.0\"} 2"));
  CHECK(has("h_bucket{l=\"x\",le=\"4.0\"} 3"));
  CHECK(has("h_bucket{l=\"x\",le=\"8.0\"} 5"));
  CHECK(has("h_bucket{l=\"x\",le=\"12.0\"} 6"));
  CHECK(has("h_bucket{l=\"x\",le=\"896.0\"} 6"));
  CHECK(has("h_bucket{l=\"x\",le=\"1024.0\"} 7"));
  CHECK(has("h_bucket{l=\"x\",le=\"16777216.0\"} 7"));
  CHECK(has("h_bucket{l=\"x\",le=\"+Inf\"} 8"));
  CHECK(has("h_count{l=\"x\"} 8"));
  MetricsPage fine({false, true});
  fine.histogram("h", "H.", {{"l", "x"}}, sums, 1, 0);
  const auto coarse_lines = lines(page.text()), fine_lines = lines(fine.text());
  for (const std::string& line : coarse_lines) CHECK(fine_lines.count(line) == 1);
  CHECK(fine_lines.count("h_bucket{l=\"x\",le=\"960.0\"} 6") == 1);
  CHECK(coarse_lines.count("h_bucket{l=\"x\",le=\"960.0\"} 6") == 0);
}

}  // namespace
}  // namespace dpi
