// Fifteen readers and a writer that never stops evicting: rows carry key and version in their elements, and
// every row that is read must be wholly one that was written. Meant for ThreadSanitizer (preset tsan), where
// it also says whether row bytes, which are no atomics, are ordered by directory and epochs; right anywhere.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "store/tiered/directory.hpp"
#include "store/tiered/epochs.hpp"
#include "store/tiered/place_pool.hpp"

namespace dpi::test::race_test {
namespace {

using namespace dpi::tiered;

constexpr int32_t kPlaces = 64;
constexpr int64_t kKeys = 160;
constexpr int64_t kElements = 8;
constexpr int64_t kWritten = 800;  // with 15 readers on two cores, of which some sleep inside an epoch

struct Race {
  Race() : shape(directory_shape(1, kPlaces, 8, 1, 3).value()), memory(Directory::bytes(shape) + 64) {
    void* at = memory.data();
    size_t space = memory.size();
    directory = Directory(shape, std::align(64, Directory::bytes(shape), at, space));
    table = directory.table(1);
  }

  void write(int32_t place, int64_t key, int64_t version) {
    for (int64_t& e : rows[place]) e = key << 20 | version;
  }

  /// Evicts and links keys, moves and updates on the way; until kWritten rows were written.
  void writer() {
    PlacePool pool(0, kPlaces);
    std::vector<int64_t> linked;
    std::mt19937 rng(1);
    for (int64_t version = 0; written < kWritten; ++version) {
      const int64_t key = rng() % kKeys - kKeys / 2;
      pool.recycle(epochs.oldest());
      int32_t place = 0;
      const bool is_linked = std::find(linked.begin(), linked.end(), key) != linked.end();
      if (pool.n_free() > 0 && pool.take(&place)) {
        write(place, key, version % 1024);
        const uint64_t h = directory.hash(table, key);
        if (is_linked)
          pool.retire(directory.replace(table, h, key, place), epochs.bump());
        else if (directory.insert(table, h, key, place))
          linked.push_back(key);
        else
          pool.give(place);
        ++written;
      }
      while (pool.n_free() == 0 && pool.n_waiting() < kPlaces / 2)
        evict(&pool, &linked, rng() % linked.size());
      if (pool.n_free() == 0) std::this_thread::yield();
    }
    done = true;
  }
  void evict(PlacePool* pool, std::vector<int64_t>* linked, size_t victim) {
    const int64_t key = (*linked)[victim];
    const int32_t place = directory.erase(table, directory.hash(table, key), key);
    pool->retire(place, epochs.bump());
    (*linked)[victim] = linked->back();
    linked->pop_back();
  }

  void reader(uint32_t seed, EpochsT<StdSync>::Line* line);

  DirectoryShape shape;
  std::vector<std::byte> memory;
  Directory directory;
  TableCode table;
  EpochsT<StdSync> epochs;
  int64_t rows[kPlaces][kElements] = {};
  std::atomic<bool> done{false};
  std::atomic<int64_t> wrong{0}, found{0};
  int64_t written = 0;
};

void Race::reader(uint32_t seed, EpochsT<StdSync>::Line* line) {
  std::mt19937 rng(seed);
  int64_t bad = 0, hits = 0;
  while (!done) {
    epochs.enter(*line);
    int64_t keys[8];
    int32_t places[8];
    for (int i = 0; i < 8; ++i) {
      keys[i] = rng() % kKeys - kKeys / 2;
      places[i] = directory.find(table, keys[i]);
    }
    for (int i = 0; i < 8; ++i) {
      if (places[i] < 0) continue;
      ++hits;
      const int64_t* row = rows[places[i]];
      for (int64_t e = 0; e < kElements; ++e) bad += row[e] != row[0] || row[e] >> 20 != keys[i];
    }
    epochs.leave(*line);
  }
  wrong += bad;
  found += hits;
}

TEST_CASE("each row read is wholly one that was written, while all are evicted") {
  auto race = std::make_unique<Race>();
  std::vector<std::thread> readers;
  for (uint32_t i = 0; i < 15; ++i) {
    auto* line = race->epochs.add_reader().value();
    readers.emplace_back([&race, i, line] { race->reader(i, line); });
  }
  race->writer();
  for (auto& t : readers) t.join();
  CHECK(race->wrong == 0);
  CHECK(race->found > kWritten);
}

}  // namespace
}  // namespace dpi::test::race_test
