// Options: the list in dpi.h is what the parser does: keys, words, bounds and defaults.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/options/options.hpp"
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

/// A line of dpi.h's list: key, values, default, clause, two blanks apart or more.
std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  for (size_t at = line.find_first_not_of(" *"); at != std::string::npos;) {
    const size_t end = std::min(line.find("  ", at), line.size());
    fields.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(' ', end);
  }
  return fields;
}

/// Key -> fields of every option that dpi.h lists.
std::map<std::string, std::vector<std::string>> listed() {
  std::ifstream file(dpi::test::source_dir() + "/capi/include/dpi/dpi.h");
  std::map<std::string, std::vector<std::string>> found;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("/* ---- ")) inside = line.starts_with("/* ---- options");
    if (!inside || !line.starts_with(" *   ")) continue;
    const auto fields = fields_of(line);
    found[fields[0]] = fields;
  }
  return found;
}

/// The option in force, by its key; of a table, `x` stands for NAME.
std::string in_force(const ModelOptions& o, const std::string& key) {
  for (const auto& [name, value] : option_values(o)) {
    if (name == key) return value;
  }
  return "(none)";
}

std::string of_table_x(std::string key) {
  const size_t at = key.find("NAME");
  return at == std::string::npos ? key : key.replace(at, 4, "x");
}

TEST_CASE("the header lists every option, with the default in force") {
  const auto lines = listed();
  REQUIRE(lines.size() > 40);
  std::set<std::string> keys;
  for (const auto& [key, value] : option_values({})) {
    CAPTURE(key);
    keys.insert(key);
    REQUIRE(lines.count(key) == 1);
    const std::string said = lines.at(key)[2];
    CHECK(value == (said == "none" && key != "debug.skip" ? "" : said == "usable CPUs" ? "0" : said));
  }
  for (const auto& [key, fields] : lines) {
    CAPTURE(key);
    CHECK(fields.size() == 4);
    CHECK((keys.count(key) == 1 || key.starts_with("table.NAME.")));
  }
}

/// "a[_b|_c]" is a, a_b and a_c.
std::vector<std::string> spelled_out(const std::string& word) {
  const size_t open = word.find('[');
  if (open == std::string::npos) return {word};
  std::vector<std::string> all = {word.substr(0, open)};
  for (size_t at = open + 1; at < word.size();) {
    const size_t end = word.find_first_of("|]", at);
    all.push_back(all.front() + word.substr(at, end - at));
    at = end + 1;
  }
  return all;
}

TEST_CASE("every word that the header lists is taken and told back, another is refused with the list") {
  for (const auto& [name, fields] : listed()) {
    const std::string key = of_table_x(name);
    CAPTURE(key);
    if (fields[1].find(" | ") == std::string::npos || key == "device" || key == "debug.skip") continue;
    std::string words = fields[1], last;
    for (size_t at = 0; at != std::string::npos;) {
      const size_t bar = words.find(" | ", at);
      const std::string word = words.substr(at, bar == std::string::npos ? bar : bar - at);
      at = bar == std::string::npos ? bar : bar + 3;
      for (const std::string& one : spelled_out(word)) {
        ModelOptions o;
        REQUIRE(set_option(&o, key, one).ok());
        CHECK(in_force(o, key) == one);
        last = one;
      }
    }
    if (fields[1].ends_with("path") || fields[1].starts_with("path")) continue;
    ModelOptions o;
    const Status refused = set_option(&o, key, "no such word");
    CHECK(refused.code() == Code::kInvalidArgument);
    CHECK(refused.message().find(" or " + last) != std::string::npos);
  }
}

TEST_CASE("the bounds that the header lists are the first and the last number that is taken") {
  size_t tried = 0;
  for (const auto& [key, fields] : listed()) {
    CAPTURE(key);
    const size_t to = fields[1].find(" ...");
    if (to == std::string::npos || key == "devices" || key == "store.peer_devices") continue;
    const long long lo = std::stoll(fields[1]);
    ModelOptions o;
    CHECK(set_option(&o, key, std::to_string(lo)).ok());
    CHECK(in_force(o, key) == std::to_string(lo));
    CHECK(set_option(&o, key, std::to_string(lo - 1)).code() == Code::kInvalidArgument);
    ++tried;
    if (to + 4 == fields[1].size()) continue;
    const long long hi = std::stoll(fields[1].substr(to + 4));
    CHECK(set_option(&o, key, std::to_string(hi)).ok());
    CHECK(in_force(o, key) == std::to_string(hi));
    const Status above = set_option(&o, key, std::to_string(hi + 1));
    CHECK(above.code() == Code::kInvalidArgument);
    CHECK(above.message().find(std::to_string(lo) + " .. " + std::to_string(hi)) != std::string::npos);
  }
  CHECK(tried >= 9);
}

TEST_CASE("bytes, folders, keys and numbers are checked as the header says") {
  for (const auto& [name, fields] : listed()) {
    const std::string key = of_table_x(name), values = fields[1];
    CAPTURE(key);
    ModelOptions o;
    if (values == "bytes") {
      CHECK(set_option(&o, key, "18446744073709551615").ok());
      CHECK(set_option(&o, key, "-1").code() == Code::kInvalidArgument);
    } else if (values == "absolute folder") {
      CHECK(set_option(&o, key, "/a").ok());
      CHECK(set_option(&o, key, "a").message().find("an absolute folder") != std::string::npos);
    } else if (values == "number") {
      CHECK(set_option(&o, key, "-0.5").ok());
      CHECK(in_force(o, key) == "-0.5");
      CHECK(set_option(&o, key, "nan").code() == Code::kInvalidArgument);
    }
  }
  ModelOptions o;
  CHECK(set_option(&o, "require_signature", std::string(64, 'a')).ok());
  CHECK(set_option(&o, "require_signature", "aa").code() == Code::kInvalidArgument);
  REQUIRE(set_option(&o, "store.redis_password", "secret").ok());
  CHECK(in_force(o, "store.redis_password") == "(set)");
}

}  // namespace dpi::test::options_test
