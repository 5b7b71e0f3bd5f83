// The manifest's reader: values of every wrong type at every key, hostile texts, and no memory at any of its
// allocations.
#include <cmath>
#include <cstdlib>
#include <new>
#include <random>

#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "base/printable.hpp"
#include "bundle/bundle_bytes.hpp"
#include "bundle/manifest_read.hpp"
#include "support/count_allocations.hpp"

namespace dpi::test::manifest_test {
namespace {

using Json = nlohmann::json;
using Path = Json::json_pointer;

/// Every key of FORMAT.md parts 3 to 10.
const char* const kFull = R"({"format": "dpi-bundle", "version": [2, 0], "name": "full",
 "provenance": {"z": "é", "metrics": {"rows": 16281, "auc": 0.9061}, "list": [1, 2.0, null, true, "x"]},
 "features": [
  {"name": "text", "kind": "categorical", "space": "item", "vocab_size": 9, "out_of_range": "oov", "oov_id": 8, "missing": "default",
   "default_id": 1, "pad_id": 0, "missing_id": -1, "stats": {"missing_rate": 0.5},
   "encoder": {"steps": [{"op": "trim"}, {"op": "missing", "values": ["?", "NA"]},
                         {"op": "vocab_string", "bytes": "/encoders/b", "offsets": "/encoders/o", "ids": "/encoders/i", "first_id": 2}]}},
  {"name": "key", "kind": "categorical", "vocab_size": 9, "encoder": {"steps": [{"op": "vocab_int", "keys": "/encoders/k", "first_id": 2}]}},
  {"name": "hash", "kind": "sequence", "vocab_size": 9, "max_len": 4, "keep": "last", "pad_side": "pre", "weighted": true,
   "encoder": {"steps": [{"op": "hash", "algorithm": "xxh64", "seed": 1, "modulus": 8, "offset": 1}]}},
  {"name": "number", "kind": "numeric", "default": 0.5, "missing": "pad",
   "encoder": {"steps": [{"op": "to_float"}, {"op": "clip", "lo": -1.5, "hi": 2}, {"op": "standard", "mean": 1, "std": 2.5},
                         {"op": "minmax", "min": 0, "max": 3, "lo": -1, "hi": 1}]}},
  {"name": "bucket", "kind": "categorical", "vocab_size": 9,
   "encoder": {"steps": [{"op": "to_float"}, {"op": "buckets", "boundaries": [-1, 0.5, 3], "right": true, "first_id": 1}]}},
  {"name": "float", "kind": "categorical", "vocab_size": 9,
   "encoder": {"steps": [{"op": "to_float"}, {"op": "vocab_float", "keys": "/encoders/f", "ids": "/encoders/i", "first_id": 3}]}},
  {"name": "bag", "kind": "sequence", "vocab_size": 9, "encoder": {"splitter": "^", "missing_element": 8, "steps": [{"op": "to_id"}]}},
  {"name": "vector", "kind": "dense", "space": "shared", "dim": 6}],
 "tables": [{"name": "t", "rows": 9, "dim": 4, "dtype": "i8", "data": "/tables/t", "scale": "/tables/s"}],
 "ops": [{"name": "in", "op": "Input", "v": 1, "in": [], "attrs": {"feature": "vector"}, "params": {}, "module": "m"},
  {"name": "y", "op": "Linear", "v": 1, "in": ["in"], "attrs": {"groups": 1}, "params": {"weight": "w", "bias": "b"}, "module": "m"}],
 "heads": [{"name": "ctr", "value": "y", "logit": "y", "activation": "sigmoid"}],
 "golden": {"rows": 8, "shared_rows": 0, "tolerance": 1e-5, "raw": ["bag", "number"], "raw_rows": 5}})";

std::vector<Path> paths_of(const Json& json) {
  std::vector<Path> paths;
  const Json flat = json.flatten();
  for (const auto& [path, value] : flat.items()) {
    for (Path at(path); !at.empty(); at = at.parent_pointer()) paths.push_back(at);
  }
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  return paths;
}

/// What a refusal of the value at `path` has to name: its key, or the number of its entry in a list.
std::string place_of(const Path& path) {
  const std::string last = path.back();
  if (last.find_first_not_of("0123456789") != std::string::npos) return last;
  const std::string list = path.parent_pointer().back();
  if (list == "steps") return "step " + last;
  return list == "features" || list == "tables" || list == "ops" || list == "heads" ? "entry " + last : list;
}

/// Where any JSON will do: nothing reads it, or the ops do, later.
bool takes_anything(const std::string& path) {
  return path.rfind("/provenance/", 0) == 0 || path.find("/stats/") != std::string::npos ||
         path.find("/attrs/groups") != std::string::npos;
}

TEST_CASE("the full manifest reads as it says") {
  const auto m = read_manifest(kFull, 0);
  REQUIRE_MESSAGE(m.ok(), m.status().message());
  CHECK(m->provenance == R"({"list":[1,2.0,null,true,"x"],"metrics":{"auc":0.9061,"rows":16281},"z":"é"})");
  CHECK(m->provenance == Json::parse(kFull)["provenance"].dump());
  const auto& hash = std::get<step::Hash>(m->features[2].encoder.steps[0]);
  CHECK(!hash.murmur);
  CHECK(hash.seed == 1);
  CHECK(hash.modulus == 8);
  CHECK(hash.offset == 1);
  const auto& words = std::get<step::VocabString>(m->features[0].encoder.steps[2]);
  CHECK(words.ids == "/encoders/i");
  CHECK(words.first_id == 2);
  CHECK(std::get<step::Missing>(m->features[0].encoder.steps[1]).values ==
        std::vector<std::string>{"?", "NA"});
  const auto& minmax = std::get<step::MinMax>(m->features[3].encoder.steps[3]);
  CHECK(minmax.max == 3);
  CHECK(minmax.lo == -1);
  const auto& buckets = std::get<step::Buckets>(m->features[4].encoder.steps[1]);
  CHECK(buckets.boundaries == std::vector<double>{-1, 0.5, 3});
  CHECK(buckets.right);
  const auto& floats = std::get<step::VocabFloat>(m->features[5].encoder.steps[1]);
  CHECK(floats.keys == "/encoders/f");
  CHECK(floats.first_id == 3);
  const EncoderSpec& bag = m->features[6].encoder;
  CHECK((bag.has_splitter && bag.splitter == "^" && bag.has_missing_element && bag.missing_element == 8));
  CHECK_FALSE((m->features[2].encoder.has_splitter || m->features[2].encoder.has_missing_element));
  CHECK(m->golden.raw == std::vector<std::string>{"bag", "number"});
  CHECK(m->golden.raw_rows == 5);
  CHECK(std::get<int64_t>(m->ops[1].attrs.at("groups")) == 1);
  CHECK(m->ops[1].params.at("weight") == "w");
}

TEST_CASE("numbers of encoder steps that cannot be are refused by their key") {
  const std::pair<const char*, const char*> faults[] = {
      {"\"modulus\": 8", "\"modulus\": 0"}, {"[-1, 0.5, 3]", "[-1, 3, 0.5]"}, {"[-1, 0.5, 3]", "[3, -1, 4]"}};
  for (const auto& [sound, fault] : faults) {
    std::string text = kFull;
    const size_t at = text.find(sound);
    REQUIRE(at != std::string::npos);
    text.replace(at, std::string(sound).size(), fault);
    const Status s = read_manifest(text, 0).status();
    CHECK(s.code() == Code::kBadModel);
    CHECK_MESSAGE(
        s.message().find(sound[0] == '[' ? "boundaries" : "modulus is 0, expected an integer from 1") !=
            std::string::npos,
        s.message());
  }
}

TEST_CASE("a value of another type is refused by its key, in any order of keys") {
  const Json full = Json::parse(kFull);
  const Json values[] = {nullptr,       true,           -7,         0.25,    18446744073709551615u, "?",
                         Json::array(), Json::object(), {{"a", 1}}, {1, "a"}};
  int refused = 0;
  for (const Path& path : paths_of(full)) {
    for (const Json& value : values) {
      if (value.type() == full[path].type() || (value.is_number() && full[path].is_number())) continue;
      Json changed = full;
      changed[path] = value;
      const auto m = read_manifest(changed.dump(), 0);
      CAPTURE(changed[path].dump());
      CAPTURE(path.to_string());
      if (takes_anything(path.to_string())) {
        CHECK_MESSAGE(m.ok(), m.status().message());
        continue;
      }
      const bool is_refused = m.status().code() == Code::kBadModel || m.status().code() == Code::kUnsupported;
      CHECK(is_refused);
      CHECK_MESSAGE(m.status().message().find(place_of(path)) != std::string::npos, m.status().message());
      ++refused;
    }
  }
  CHECK(refused > 500);
}

TEST_CASE("a default is finite as a float32") {
  for (const auto& [value, good] :
       {std::pair(3.4028234663852886e38, true), std::pair(-3.4028234663852886e38, true),
        std::pair(3.5e38, false), std::pair(-1e300, false)}) {
    CAPTURE(value);
    Json full = Json::parse(kFull);
    for (Json& f : full["features"])
      if (f.contains("default")) f["default"] = value;
    const auto m = read_manifest(full.dump(), 0);
    CHECK(m.ok() == good);
    if (!good) CHECK(m.status().message().find("default is beyond") != std::string::npos);
  }
}

TEST_CASE("an attribute keeps what the manifest says") {
  Json full = Json::parse(kFull);
  full["ops"][1]["attrs"] = Json::parse(
      R"({"n": null, "b": false, "i": -3, "u": 18446744073709551615, "d": 2.0, "t": "x", "l": [1, -2], "e": [], "o": {"z": [1], "a": {}},
          "m": [1, 2, {"k": 1}, [3]], "f": [1, 2.0]})");
  const auto m = read_manifest(full.dump(), 0);
  REQUIRE_MESSAGE(m.ok(), m.status().message());
  const AttrMap& attrs = m->ops[1].attrs;
  for (const auto& [key, value] : full["ops"][1]["attrs"].items())
    CHECK(json_text(attrs.at(key)) == value.dump());
  CHECK(std::get<std::vector<int64_t>>(attrs.at("l")) == std::vector<int64_t>{1, -2});
  CHECK(std::holds_alternative<std::vector<int64_t>>(attrs.at("e")));
  CHECK(std::holds_alternative<OtherJson>(attrs.at("f")));
  CHECK(std::holds_alternative<uint64_t>(attrs.at("u")));
  CHECK(std::holds_alternative<double>(attrs.at("d")));
}

std::string with(const std::string& members) {
  return std::string(kFull).substr(0, std::string(kFull).size() - 1) + ", " + members + "}";
}

std::string repeated(const char* text, int n) {
  std::string all;
  for (int i = 0; i < n; ++i) all += text;
  return all;
}

TEST_CASE("hostile texts") {
  const auto text_of = [](const std::string& json) { return read_manifest(json, 0).status().message(); };
  const std::string deep = "is nested deeper than 64 levels", not_json = "is not valid JSON in UTF-8";
  CHECK(text_of(with("\"x\": " + repeated("[", 64) + repeated("]", 64))).empty());
  CHECK(text_of(with("\"x\": " + repeated("[", 65) + repeated("]", 65))) == deep);
  CHECK(text_of(repeated("[", 100000)) == deep);
  CHECK(text_of(repeated("{\"a\":", 100000)) == deep);
  CHECK(text_of(with("\"x\": " + repeated("{\"a\":", 100000) + "1" + repeated("}", 100000))) == deep);
  CHECK(text_of(with("\"x\": 1e400")) == not_json);
  CHECK(text_of(with("\"x\": -1e400")) == not_json);
  CHECK(text_of(with("\"x\": 123456789012345678901234567890")).empty());
  CHECK(text_of(with("\"x\": \"\xC0\x80\"")) == not_json);
  CHECK(text_of(with("\"x\": \"\\ud800\"")) == not_json);
  CHECK(text_of(with("\"x\": NaN")) == not_json);
  CHECK(text_of(std::string(kFull) + "{}") == not_json);
  CHECK(text_of("") == not_json);
  CHECK(text_of("7") == "is a JSON number, expected an object");
  CHECK(text_of("[]") == "is a JSON array, expected an object");
  CHECK(text_of(with("\"name\": \"again\"")) == "key 'name' is given twice in one object");
  CHECK(text_of(with("\"x\": [{\"a\": 1, \"b\": {\"a\": 1}, \"a\": 2}]")) ==
        "key 'a' is given twice in one object");
  CHECK(text_of(with("\"x\": [{\"a\": 1}, {\"a\": 2}]")).empty());
}

TEST_CASE("no memory, at any allocation of a manifest") {
  const int64_t total = allocations_during([] { (void)read_manifest(kFull, 0); });
  CHECK(total > 300);
  for (int64_t n = 0; n < total; ++n) {
    fail_allocation(n);
    CHECK_THROWS_AS((void)read_manifest(kFull, 0), std::bad_alloc);
  }
  fail_allocation(-1);
  CHECK(read_manifest(kFull, 0).ok());
}

TEST_CASE("no memory, at any allocation of a bundle's opening") {
  const Bytes bytes = read_file(small_path());
  (void)open_bytes(bytes);  // what libraries keep after their first use
  const int64_t total = allocations_during([&] { (void)open_bytes(bytes); });
  CHECK(total > 300);
  int out_of_memory = 0;
  for (int64_t n = 0; n < total; ++n) {
    fail_allocation(n);
    try {
      const Status s = open_bytes(bytes).status();
      fail_allocation(-1);
      CHECK_MESSAGE(s.code() == Code::kOutOfMemory, "allocation ", n, ": ", s.message());
    } catch (const std::bad_alloc&) {  // before the bundle has a name: the C API makes a status of it
      fail_allocation(-1);
    }
    ++out_of_memory;
  }
  CHECK(out_of_memory == total);
  CHECK(open_bytes(bytes).ok());
}

TEST_CASE("numbers and texts are written as other writers do") {
  std::mt19937_64 random(7);
  int same = 0;
  constexpr int kNumbers = 200000;
  for (int i = 0; i < kNumbers; ++i) {
    const uint64_t bits = random();
    double v = 0;
    std::memcpy(&v, &bits, sizeof v);
    if (i % 2 == 0) v = static_cast<double>(static_cast<int64_t>(bits) >> (bits % 60)) / 1000;
    std::string text;
    append_json_number(&text, v);
    if (std::isfinite(v)) CHECK(std::strtod(text.c_str(), nullptr) == v);
    same += text == Json(v).dump() ? 1 : 0;
  }
  CHECK(same > kNumbers * 99 / 100);  // the other writer's digits are not always the shortest
  for (const double v :
       {0.0, -0.0, 1.0, 0.1, 1e-5, 1e-4, 123456.0, 1e14, 1e15, 1e16, 1e22, 5e-324, -2.5e-7}) {
    std::string text;
    append_json_number(&text, v);
    CHECK(text == Json(v).dump());
  }
  for (const char* s : {"", "a\"b\\c", "\b\t\n\f\r\x01\x1f\x7f", "é€😀", "\xFF", "\xED\xA0\x80", "\xC0\x80z",
                        "\xF4\x90\x80\x80", "\xC2\x9B[2J", "\xE2\x80\xAE"}) {
    std::string text;
    append_json_string(&text, s);
    CHECK_MESSAGE(
        Json::parse(text) == Json::parse(Json(s).dump(-1, ' ', false, Json::error_handler_t::replace)), text);
    CHECK(printable(text) == text);  // nothing that a terminal would act on
  }
}

}  // namespace
}  // namespace dpi::test::manifest_test
