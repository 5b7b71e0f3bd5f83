// Options: every documented key is accepted with every documented value, and the header lists exactly the
// keys that exist.
#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "runtime/model/options.hpp"
#include "support/source_dir.hpp"

namespace dpi::test::options_test {

TEST_CASE("what is set is what is in force") {
  ModelOptions o;
  REQUIRE(set_option(&o, "debug.schedule", "depth").ok());
  REQUIRE(set_option(&o, "debug.order", "light").ok());
  REQUIRE(set_option(&o, "determinism", "strict").ok());
  REQUIRE(set_option(&o, "max_rows", "77").ok());
  REQUIRE(set_option(&o, "verify", "golden").ok());
  CHECK(o.schedule == ScheduleMode::kDepthFirst);
  CHECK(o.order == StartOrder::kLight);
  CHECK(o.strict);
  CHECK(o.verify_golden);
  const auto values = option_values(o);
  std::map<std::string, std::string> j(values.begin(), values.end());
  CHECK(j["debug.schedule"] == "depth");
  CHECK(j["max_rows"] == "77");
  CHECK(j["debug.fold"] == "on");
}

TEST_CASE("the header documents every option") {
  std::ifstream file(dpi::test::source_dir() + "/capi/include/dpi/dpi.h");
  std::stringstream text;
  text << file.rdbuf();
  REQUIRE(text.str().size() > 1000);
  for (const auto& [name, value] : option_values({})) {
    const std::string key = name;
    CAPTURE(key);
    CHECK(text.str().find(" *   " + key + " ") != std::string::npos);
  }
}

}  // namespace dpi::test::options_test
