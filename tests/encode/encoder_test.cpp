// Encoders against vectors that numpy, scikit-learn, xxhash and Python computed (make_vectors.py), and their
// promises: nothing is allocated per value, and any number of threads may encode at once.
#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <thread>

#include <nlohmann/json.hpp>

#include "encode/encoder.hpp"
#include "encode/hash.hpp"
#include "encode/parse.hpp"
#include "encode/vocabulary.hpp"
#include "support/count_allocations.hpp"
#include "support/source_dir.hpp"

namespace dpi::test::encoder_test {
namespace {

using Encoders = std::map<std::string, FeatureEncoder>;

struct Vector {
  std::string feature, text;
  bool is_number = false;
  double number = 0;
  nlohmann::json want;
};

Encoders load_encoders() {
  auto bundle = Bundle::open(source_dir() + "/tests/encode/data/encoders.h5");
  REQUIRE_MESSAGE(bundle.ok(), bundle.status().message());
  Encoders out;
  VocabularySet vocabularies(**bundle);
  for (const FeatureSpec& f : (*bundle)->manifest().features) {
    auto encoder = FeatureEncoder::build(f, vocabularies);
    REQUIRE_MESSAGE(encoder.ok(), encoder.status().message());
    out.emplace(f.name, std::move(encoder).value());
  }
  return out;
}

std::vector<Vector> load_vectors() {
  std::ifstream in(source_dir() + "/tests/encode/data/vectors.json");
  const auto json = nlohmann::json::parse(in, nullptr, false);
  REQUIRE(json.is_array());
  std::vector<Vector> out;
  for (const auto& j : json) {
    Vector v;
    v.feature = j["feature"].get<std::string>();
    v.want = j;
    v.is_number = j.contains("number");
    if (!v.is_number) {
      v.text = j["text"].get<std::string>();
    } else if (j["number"].is_string()) {
      v.number = std::strtod(j["number"].get<std::string>().c_str(), nullptr);
    } else {
      v.number = j["number"].get<double>();
    }
    out.push_back(std::move(v));
  }
  return out;
}

Status encode(const FeatureEncoder& encoder, const Vector& v, EncodedValue* out) {
  return v.is_number ? encoder.encode_number(v.number, out) : encoder.encode_text(v.text, out);
}

/// Is `got` what the vector wants? Floats to float32 rounding.
bool as_wanted(const Vector& v, const Status& status, const EncodedValue& got) {
  using Kind = EncodedValue::Kind;
  if (v.want.contains("error")) return status.code() == Code::kInvalidArgument;
  if (!status.ok()) return false;
  if (v.want.contains("missing")) return got.kind == Kind::kMissing;
  if (v.want.contains("id")) return got.kind == Kind::kId && got.id == v.want["id"].get<int64_t>();
  const double want = v.want["float"].get<double>();
  return got.kind == Kind::kFloat && std::fabs(got.value - want) <= 1.2e-7 * std::fabs(want) + 1e-38;
}

TEST_CASE("a decimal beyond a double is 0 below it and refused above it, however it is written") {
  const std::string zeros(6000, '0');
  double v = -1;
  for (const std::string& tiny : std::vector<std::string>{
           "1e-400", "-1e-4000", "1e-99999999999999999999", "0." + zeros + "1", "1" + zeros + "e-6400",
           "0." + zeros + "1e5600", "." + zeros + "9E+5600", "0e99999999999999999999"}) {
    CAPTURE(tiny.substr(0, 30));
    v = -1;
    CHECK(parse_decimal(tiny, &v));
    CHECK(v == 0);
  }
  for (const std::string& huge :
       std::vector<std::string>{"1e400", "-1e4000", "1e99999999999999999999", "1" + zeros,
                                "-1" + zeros + "e-5600", "0." + zeros + "1e6400"}) {
    CAPTURE(huge.substr(0, 30));
    CHECK_FALSE(parse_decimal(huge, &v));
  }
  CHECK(parse_decimal("1" + zeros + "e-6000", &v));
  CHECK(v == 1);
  CHECK(parse_decimal("0." + zeros + "25e6001", &v));
  CHECK(v == 2.5);
}

TEST_CASE("recorded vectors") {
  const Encoders encoders = load_encoders();
  const std::vector<Vector> vectors = load_vectors();
  CHECK(vectors.size() > 3000);
  for (const Vector& v : vectors) {
    EncodedValue got;
    got.value = std::numeric_limits<float>::quiet_NaN();
    const Status status = encode(encoders.at(v.feature), v, &got);
    CHECK_MESSAGE(as_wanted(v, status, got), v.want.dump().substr(0, 200), " got kind ",
                  static_cast<int>(got.kind), " id ", got.id, " float ", got.value, " ", status.message());
    if (!status.ok()) CHECK(status.message().size() < 300);
  }
}

TEST_CASE("encoding allocates nothing") {
  const Encoders encoders = load_encoders();
  const std::vector<Vector> vectors = load_vectors();
  std::vector<const FeatureEncoder*> of;
  for (const Vector& v : vectors) of.push_back(&encoders.at(v.feature));
  static int* volatile seen;  // so that the pair is not optimised away
  REQUIRE(allocations_during([] {
            seen = new int(1);
            delete seen;
          }) == 1);
  int64_t allocations = 0;
  EncodedValue got;
  for (size_t i = 0; i < vectors.size(); ++i) {
    if (vectors[i].want.contains("error")) continue;
    allocations += allocations_during([&] { (void)encode(*of[i], vectors[i], &got); });
  }
  CHECK(allocations == 0);
}

TEST_CASE("threads share encoders") {
  const Encoders encoders = load_encoders();
  const std::vector<Vector> vectors = load_vectors();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (const Vector& v : vectors) {
        EncodedValue got;
        const Status status = encode(encoders.at(v.feature), v, &got);
        wrong += as_wanted(v, status, got) ? 0 : 1;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
}

TEST_CASE("elements of a text are Python's") {
  std::ifstream in(source_dir() + "/tests/encode/data/splits.json");
  const auto json = nlohmann::json::parse(in, nullptr, false);
  REQUIRE(json.is_array());
  CHECK(json.size() > 1000);
  for (const auto& j : json) {
    const auto text = j["text"].get<std::string>(), splitter = j["splitter"].get<std::string>();
    std::vector<std::string> got;
    const int64_t allocations = allocations_during([&] {
      BagElements elements(text, splitter);
      for (std::string_view e; elements.next(&e);) {
      }
    });
    CHECK(allocations == 0);
    BagElements elements(text, splitter);
    for (std::string_view e; elements.next(&e);) got.emplace_back(e);
    CHECK_MESSAGE(got == j["want"].get<std::vector<std::string>>(), j.dump(), " gave ", got.size());
  }
  BagElements whole("a^b");
  std::string_view e;
  CHECK(whole.next(&e));
  CHECK(e == "a^b");
  CHECK_FALSE(whole.next(&e));
}

TEST_CASE("murmur3_32 published values") {
  CHECK(murmur3_32("", 0) == 0u);
  CHECK(murmur3_32("", 1) == 0x514E28B7u);
  CHECK(murmur3_32("", 0xffffffffu) == 0x81F16F39u);
  CHECK(murmur3_32(std::string_view("\0\0\0\0", 4), 0) == 0x2362F9DEu);
  CHECK(murmur3_32("Hello, world!", 0x9747b28cu) == 0x24884CBAu);
  CHECK(murmur3_32("The quick brown fox jumps over the lazy dog", 0x9747b28cu) == 0x2FA826CDu);
}

TEST_CASE("number texts are Python's") {
  char buffer[400];
  CHECK(number_text(0.0, buffer) == "0");
  CHECK(number_text(-0.0, buffer) == "0");
  CHECK(number_text(-3.0, buffer) == "-3");
  CHECK(number_text(1e22, buffer) == "10000000000000000000000");
  CHECK(number_text(0.1, buffer) == "0.1");
  CHECK(number_text(0.0001, buffer) == "0.0001");
  CHECK(number_text(0.00001, buffer) == "1e-05");
  CHECK(number_text(5e-324, buffer) == "5e-324");
  CHECK(number_text(1e308, buffer).size() == 309);
}

TEST_CASE("vocabularies refuse what makes no sense") {
  CHECK(StringVocabulary::build({'a', 'b'}, {0, 1, 2}).ok());
  CHECK(StringVocabulary::build({}, {0}).ok());
  CHECK(StringVocabulary::build({'a', 'a'}, {0, 1, 2}).status().code() == Code::kBadModel);
  CHECK(StringVocabulary::build({'a', 'b'}, {0, 2, 1}).status().code() == Code::kBadModel);
  CHECK(StringVocabulary::build({'a', 'b'}, {1, 2}).status().code() == Code::kBadModel);
  CHECK(StringVocabulary::build({'a', 'b'}, {0, 3}).status().code() == Code::kBadModel);
  CHECK(StringVocabulary::build({'a'}, {0, UINT64_MAX, 1}).status().code() == Code::kBadModel);
  CHECK(StringVocabulary::build({'a'}, {}).status().code() == Code::kBadModel);
  CHECK(IntVocabulary::build({1, 2, 1}).status().code() == Code::kBadModel);
  const auto empty = IntVocabulary::build({});
  REQUIRE(empty.ok());
  uint32_t entry = 0;
  CHECK_FALSE(empty->find(0, &entry));
}

}  // namespace
}  // namespace dpi::test::encoder_test
