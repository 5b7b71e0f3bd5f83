// Every form of the loops of a probe against Directory::find: keys in first and second buckets, in the stash,
// absent and missing ones, the same keys of another table beside them.
#include "store/tiered/probe_keys.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

namespace dpi::test::probe_keys_test {
namespace {

using namespace dpi::tiered;

struct Free {
  void operator()(void* p) const { std::free(p); }
};

/// Two tables with keys of which half are the same, as full as a directory may be.
struct Full {
  explicit Full(int32_t shards) {
    const auto shape = directory_shape(shards, 12000 / shards, 64, 3, 5).value();
    const uint64_t bytes = Directory::bytes(shape);
    memory.reset(std::aligned_alloc(64, bytes));
    std::memset(memory.get(), 0, bytes);
    directory = Directory(shape, memory.get());
    std::vector<int32_t> next(static_cast<size_t>(shards));
    for (int64_t i = 0; i < 30000; ++i) {
      const TableCode t = directory.table(1 + static_cast<uint32_t>(i % 2));
      const int64_t key = i % 4 < 2 ? i / 2 : -i * 4096;
      const uint64_t h = directory.hash(t, key);
      const int32_t shard = directory.shard_of(h);
      int32_t& used = next[static_cast<size_t>(shard)];
      const int32_t place = i % 500 == 1 ? Directory::kAbsent : shard * shape.places_per_shard + used;
      if (used == shape.places_per_shard || directory.find(t, h, key) != Directory::kMissing) continue;
      if (directory.insert(t, h, key, place)) used += place >= 0;
    }
  }
  std::unique_ptr<void, Free> memory;
  Directory directory;
};

std::vector<int64_t> some_keys(size_t n, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<int64_t> keys(n);
  for (int64_t& k : keys) {
    const auto i = static_cast<int64_t>(rng() % 40000);
    k = i % 2 == 0 ? i / 2 : -i * 4096;
  }
  return keys;
}

TEST_CASE("each form hashes as the directory does, and finds what lies in first buckets") {
  for (const int32_t shards : {1, 4}) {
    const Full full(shards);
    const Directory& d = full.directory;
    int forms = 0;
    for (int form = 0; form <= 2; ++form) {
      ProbeKeys probe;
      if (!probe_keys_form(form, &probe)) continue;
      CAPTURE(form);
      ++forms;
      size_t found = 0, elsewhere = 0, absent = 0;
      for (const int32_t n : {0, 1, 2, 7, 8, 9, 31, 64, 1000, 20000}) {
        const auto keys = some_keys(static_cast<size_t>(n), static_cast<uint64_t>(n));
        std::vector<uint64_t> hash(keys.size());
        std::vector<const Directory::Bucket*> bucket(keys.size());
        std::vector<int32_t> places(keys.size(), 12345);
        const TableCode t = d.table(2);
        probe.hash(d, t, keys.data(), n, hash.data(), bucket.data());
        probe.look(d, t, keys.data(), hash.data(), bucket.data(), n, bucket.data(), places.data());
        for (size_t i = 0; i < keys.size(); ++i) {
          REQUIRE(hash[i] == d.hash(t, keys[i]));
          REQUIRE(bucket[i] == &d.bucket(d.first_of(hash[i])));
          const int32_t first = d.find_first(t, hash[i], keys[i]), place = d.find(t, keys[i]);
          REQUIRE((places[i] == first || places[i] == Directory::kMissing));
          found += places[i] >= 0;
          absent += places[i] == Directory::kAbsent;
          elsewhere += first == Directory::kMissing && place >= 0;
          const bool twice = std::popcount(Directory::same_keys(*bucket[i], keys[i])) > 1;  // of both tables
          if (first != Directory::kMissing && !twice) REQUIRE(places[i] == first);
        }
      }
      CHECK(found > 2000);
      CHECK(elsewhere > 100);
      CHECK(absent > 0);
    }
    CHECK(forms >= 1);
  }
}

}  // namespace
}  // namespace dpi::test::probe_keys_test
