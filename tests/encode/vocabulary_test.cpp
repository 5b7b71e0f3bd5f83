// Vocabularies against std::map, keys that are chosen to meet, and one vocabulary for many features.
#include <doctest/doctest.h>

#include <ctime>
#include <map>
#include <random>
#include <string>

#include "bundle/bundle.hpp"
#include "encode/encoder.hpp"
#include "encode/vocabulary_set.hpp"
#include "support/source_dir.hpp"

namespace dpi::test::vocabulary_test {
namespace {

/// Of this process's own work, whatever else the machine does.
double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// Numbers x with mix(x) = k 2^32: the mixing that an attacker would know if it had no seed, run backwards.
int64_t chosen_key(uint64_t k) {
  uint64_t x = k << 32;
  x = x ^ (x >> 31) ^ (x >> 62);
  x *= 0x319642B2D24D8EC3ull;  // inverse of 0x94D049BB133111EB
  x = x ^ (x >> 27) ^ (x >> 54);
  x *= 0x96DE1B173F119089ull;  // inverse of 0xBF58476D1CE4E5B9
  return static_cast<int64_t>(x ^ (x >> 30) ^ (x >> 60));
}

TEST_CASE("the multipliers undo each other") {
  CHECK(0x319642B2D24D8EC3ull * 0x94D049BB133111EBull == 1);
  CHECK(0x96DE1B173F119089ull * 0xBF58476D1CE4E5B9ull == 1);
}

TEST_CASE("integer keys that would all meet in one place without a seed") {
  constexpr size_t kKeys = 200'000;
  std::vector<int64_t> keys;
  for (uint64_t k = 0; k < kKeys; ++k) keys.push_back(chosen_key(k));
  const double begin = cpu_seconds();
  const auto v = IntVocabulary::build(keys);
  REQUIRE_MESSAGE(v.ok(), v.status().message());
  uint32_t entry = 0;
  size_t right = 0;
  for (size_t k = 0; k < kKeys; ++k) right += v->find(keys[k], &entry) && entry == k ? 1 : 0;
  CHECK(right == kKeys);
  CHECK(cpu_seconds() - begin < 2);  // 11 s before the hash had a seed; 0.01 s with one
}

TEST_CASE("as std::map has it") {
  std::mt19937_64 rng(5);
  for (const size_t n : {0, 1, 2, 3, 100, 5000}) {
    std::map<int64_t, uint32_t> integers;
    std::map<std::string, uint32_t> strings;
    std::vector<int64_t> keys;
    std::vector<uint8_t> bytes;
    std::vector<uint64_t> offsets = {0};
    while (keys.size() < n) {
      const auto key = static_cast<int64_t>(rng() >> (rng() % 60));
      if (!integers.emplace(key, keys.size()).second) continue;
      keys.push_back(key);
      const std::string text = std::to_string(key) + std::string(rng() % 300, 'x');
      strings.emplace(text, offsets.size() - 1);
      bytes.insert(bytes.end(), text.begin(), text.end());
      offsets.push_back(bytes.size());
    }
    const auto i = IntVocabulary::build(keys);
    const auto s = StringVocabulary::build(bytes, offsets);
    REQUIRE((i.ok() && s.ok()));
    uint32_t entry = 0;
    for (const auto& [key, want] : integers) CHECK((i->find(key, &entry) && entry == want));
    for (const auto& [text, want] : strings) CHECK((s->find(text, &entry) && entry == want));
    for (int k = 0; k < 1000; ++k) {
      const auto key = static_cast<int64_t>(rng() >> (rng() % 60));
      CHECK(i->find(key, &entry) == integers.contains(key));
      const std::string text = std::to_string(key);
      CHECK(s->find(text, &entry) == strings.contains(text));
    }
  }
}

TEST_CASE("an entry that is there twice is named") {
  std::vector<int64_t> keys(3000);
  for (size_t k = 0; k < keys.size(); ++k) keys[k] = static_cast<int64_t>(k);
  keys[2500] = 77;
  const Status i = IntVocabulary::build(keys).status();
  CHECK(i.code() == Code::kBadModel);
  CHECK_MESSAGE(i.message().find("77 appears twice") != std::string::npos, i.message());
  const Status s = StringVocabulary::build({'a', 'b', 'a'}, {0, 1, 2, 3}).status();
  CHECK_MESSAGE(s.message().find("'a' appears twice") != std::string::npos, s.message());
  CHECK_FALSE(StringVocabulary::build({'a'}, {0, 2}).ok());
  CHECK_FALSE(StringVocabulary::build({'a'}, {1, 1}).ok());
  CHECK_FALSE(StringVocabulary::build({'a', 'b'}, {0, 2, 1, 2}).ok());
  CHECK_FALSE(StringVocabulary::build({'a', 'b'}, {0, 3, 2}).ok());
  CHECK_FALSE(StringVocabulary::build({}, {}).ok());
}

TEST_CASE("one vocabulary for all features that name it") {
  auto bundle = Bundle::open(source_dir() + "/tests/bundle/data/small.h5");
  REQUIRE(bundle.ok());
  const auto& features = (*bundle)->manifest().features;
  const auto& texts = std::get<step::VocabString>(features[0].encoder.steps[1]);
  const auto& integers = std::get<step::VocabInt>(features[1].encoder.steps[0]);
  VocabularySet set(**bundle);
  const auto first = set.strings(texts.bytes, texts.offsets),
             second = set.strings(texts.bytes, texts.offsets);
  REQUIRE((first.ok() && second.ok()));
  CHECK(first->get() == second->get());
  const auto one = set.integers(integers.keys), two = set.integers(integers.keys);
  REQUIRE((one.ok() && two.ok()));
  CHECK(one->get() == two->get());
  const auto ids = set.ids(integers.ids, 0), again = set.ids(integers.ids, 5);
  REQUIRE((ids.ok() && again.ok()));
  CHECK(ids->stated.get() == again->stated.get());
  CHECK(set.ids("", 5)->of(2) == 7);
}

}  // namespace
}  // namespace dpi::test::vocabulary_test
