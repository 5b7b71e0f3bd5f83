// Whole graphs against the text dumps in golden/. DPI_UPDATE_GOLDEN=1 writes the files anew: look at the
// difference before you keep it.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "fixture.hpp"
#include "support/source_dir.hpp"

namespace dpi::test::golden_test {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream s;
  s << in.rdbuf();
  return s.str();
}

void check_golden(const std::string& name, MapParams params) {
  const std::string folder = dpi::test::source_dir() + "/tests/graph/golden/";
  const auto graph = dpi::build_graph(manifest_of(read_text(folder + name + ".json")), params);
  REQUIRE_MESSAGE(graph.ok(), graph.status().message());
  const std::string dump = dpi::dump_graph(*graph);
  if (std::getenv("DPI_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(folder + name + ".txt", std::ios::binary) << dump;
  }
  CHECK(dump == read_text(folder + name + ".txt"));
}

}  // namespace

TEST_CASE("golden: wide and deep, item rows only") {
  check_golden(
      "wide_deep",
      MapParams(
          {{"mlp.0.weight", {8, 7}}, {"mlp.0.bias", {8}}, {"mlp.1.weight", {1, 8}}, {"wide.bias", {1}}}));
}

TEST_CASE("golden: user sequence and candidate, attention over shared rows") {
  check_golden("shared_attention",
               MapParams({{"gru.w_input", {12, 4}}, {"gru.w_hidden", {12, 4}}, {"out.weight", {1, 12}}}));
}

TEST_CASE("golden: every op and attribute") {
  check_golden("every_op", MapParams({{"c", {2, 3}},
                                      {"v3", {3}},
                                      {"v1", {1}},
                                      {"w53", {5, 3}},
                                      {"w42", {4, 2}},
                                      {"g", {2, 4, 3}},
                                      {"gb", {2, 4}},
                                      {"n23", {2, 3}},
                                      {"wi", {6, 4}},
                                      {"wh", {6, 2}},
                                      {"b6", {6}},
                                      {"last", {1, 2}}}));
}

TEST_CASE("golden: the ops that came later") {
  check_golden("later_ops", MapParams({{"v3", {3}}, {"last", {1, 6}}}));
}

}  // namespace dpi::test::golden_test
