// The protocol of epochs.hpp and directory.hpp over every interleaving of two readers and a writer on tiny
// instances. A row is two words that both hold its key (and version): a reader that gets another key's row,
// halves of two rows, or a row that was written while it read, sees it. Every fault that is planted must be
// caught: a writer that does not wait for readers, and each pair of neighbouring stores of the writer whose
// order matters, swapped.
#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "store/tiered/directory.hpp"
#include "store/tiered/epochs.hpp"
#include "store/tiered/place_pool.hpp"
#include "support/full.hpp"
#include "support/sanitizer.hpp"
#include "support/tier_model.hpp"

namespace dpi::test::schedule_test {
namespace {

using namespace dpi::tiered;
using Epochs = EpochsT<ModelSync>;
using Small = DirectoryT<ModelSync, 1>;  // a bucket is one cell, so that cells are reused at once

constexpr auto kRelaxed = std::memory_order_relaxed;

struct Row {
  int64_t first = 0, second = 0;
};

/// Two readers' lines, a directory of three cells, three places.
struct World {
  explicit World(int64_t buckets = 3) {
    DirectoryShape s;
    s.buckets_per_shard = buckets;
    s.places_per_shard = 3;
    s.place_bits = 2;
    s.stash_per_shard = 0;
    directory = Small(s, cells);
    for (auto& line : lines) line = epochs.add_reader().value();
    model.track(&epochs, 64);  // the epoch itself; no reader comes or goes
    for (auto* line : lines) model.track(line);
    model.track(cells, sizeof cells);
    model.track(rows, sizeof rows);
  }

  /// The n-th key (from `from` on) that lies in `first`, else in `second` (-1 = any).
  int64_t key(int64_t first, int64_t second, int64_t from = 1) const {
    for (int64_t k = from;; ++k) {
      const uint64_t h = directory.hash(table, k);
      if (directory.first_of(h) == first && (second < 0 || directory.second_of(h) == second)) return k;
    }
  }
  void write_row(int32_t place, int64_t key) {
    ModelSync::store(rows[place].first, key, kRelaxed);
    ModelSync::store(rows[place].second, key, kRelaxed);
  }
  bool link(int64_t key, int32_t place) {
    return directory.insert(table, directory.hash(table, key), key, place);
  }
  int32_t unlink(int64_t key) { return directory.erase(table, directory.hash(table, key), key); }

  /// Looks at the keys within one epoch. A row holds its key, plus a version in units of kVersion.
  void read(int reader, std::initializer_list<int64_t> keys, bool must_be_found = false) {
    epochs.enter(*lines[reader]);
    for (const int64_t k : keys) {
      const int32_t place = directory.find(table, k);
      if (place == Small::kAbsent && k != absent) model.fail("absent");
      if (place < 0) {
        if (must_be_found) model.fail("missed");
        continue;
      }
      const int64_t first = ModelSync::load(rows[place].first, kRelaxed);
      const int64_t second = ModelSync::load(rows[place].second, kRelaxed);
      if (first != second) model.fail("torn");
      if (first % kVersion != k) model.fail("wrong row");
    }
    epochs.leave(*lines[reader]);
  }

  static constexpr int64_t kVersion = 1000000;
  static constexpr size_t kWriter = 2;
  ThreadModel model;
  TableCode table = table_code(1, 0);
  int64_t absent = 0;  // the key that is in no tier
  alignas(64) Small::Bucket cells[3] = {};
  Row rows[3];
  Epochs epochs;
  Epochs::Line* lines[2] = {};
  Small directory;
};

/// A's row is evicted and its place given to B as soon as that is allowed.
void recycle(World& w) {
  const int64_t a = w.key(0, 1), b = w.key(0, 1, a + 1);
  w.write_row(0, a);
  REQUIRE(w.link(a, 0));
  w.model.thread([&w, a, b] { w.read(0, {a, b}); });
  w.model.thread([&w, a, b] { w.read(1, {b, a}); });
  w.model.thread([&w, a, b] {
    PlacePool pool(0, 1);
    int32_t place = 0;
    pool.take(&place);
    w.unlink(a);
    pool.retire(place, w.epochs.bump());
    for (int tries = 0; tries < 2; ++tries) {
      pool.recycle(w.epochs.oldest());
      if (!pool.take(&place)) continue;
      w.write_row(place, b);
      w.link(b, place);
      return;
    }
  });
}

/// A's cell is given to B at once, with a free place; then A comes back in another place.
void reuse_cell(World& w) {
  const int64_t a = w.key(0, 1), b = w.key(0, 1, a + 1);
  w.write_row(0, a);
  REQUIRE(w.link(a, 0));
  w.model.thread([&w, a] { w.read(0, {a}); });
  w.model.thread([&w, a, b] { w.read(1, {b, a}); });
  w.model.thread([&w, a, b] {
    w.unlink(a);
    w.write_row(1, b);
    w.link(b, 1);
    w.unlink(b);
    w.write_row(2, a);
    w.link(a, 2);
  });
}

/// Z takes the cell of X, which moves to its second bucket and must be found throughout.
void move(World& w) {
  const int64_t x = w.key(0, 1), z = w.key(0, 2), other = w.key(2, -1);
  w.write_row(0, x);
  w.write_row(1, other);
  w.write_row(2, z);
  REQUIRE(w.link(x, 0));
  REQUIRE(w.link(other, 1));
  w.model.thread([&w, x] { w.read(0, {x}, true); });
  w.model.thread([&w, x, z] { w.read(1, {z, x}); });
  w.model.thread([&w, z] {
    if (!w.link(z, 2)) w.model.fail("no room");
  });
}

/// A gets a new row twice; the third version takes the place of the first as soon as that is allowed.
void update(World& w) {
  const int64_t a = w.key(0, 1);
  w.write_row(0, a);
  REQUIRE(w.link(a, 0));
  w.model.thread([&w, a] { w.read(0, {a}); });
  w.model.thread([&w, a] { w.read(1, {a}); });
  w.model.thread([&w, a] {
    PlacePool pool(0, 2);
    int32_t place = 0;
    pool.take(&place);
    for (int64_t version = 1; version <= 2; ++version) {
      pool.recycle(w.epochs.oldest());
      if (!pool.take(&place)) return;
      w.write_row(place, a + version * World::kVersion);
      const int32_t before = w.directory.replace(w.table, w.directory.hash(w.table, a), a, place);
      pool.retire(before, w.epochs.bump());
    }
  });
}

/// B's row takes the cell of A, which is known to be absent: nobody may take B for absent.
void remembered(World& w) {
  const int64_t a = w.key(0, 1), b = w.key(0, 1, a + 1);
  w.absent = a;
  REQUIRE(w.link(a, Small::kAbsent));
  w.model.thread([&w, b] { w.read(0, {b, b}); });
  w.model.thread([&w, a, b] { w.read(1, {a, b}); });
  w.model.thread([&w, a, b] {
    w.unlink(a);
    w.write_row(1, b);
    w.link(b, 1);
  });
}

/// order: the writer's stores (counted from 0) that must not become visible after the one that follows. The
/// others may: a row's two halves, or its last half and the key, come before the word in either order.
struct Scenario {
  std::string name;
  void (*set_up)(World&);
  std::vector<int> order;
};
const Scenario kScenarios[] = {
    {"recycle", recycle, {0, 4}},        // unlink, bump; row, row; key, word
    {"reuse_cell", reuse_cell, {3, 8}},  // unlink; row, row; key, word; unlink; row, row; key, word
    {"move", move, {1, 2, 3}},           // key, word of the copy; clear; key, word
    {"update", update, {1, 2, 5}},       // row, row; word; bump; row, row; word; bump
    {"remembered", remembered, {3}}};    // unlink; row, row; key, word

TEST_CASE("no order of two readers and a writer lets a reader see a wrong row") {
  for (const Scenario& s : kScenarios) {
    World w;
    s.set_up(w);
    for (const std::string& text : w.model.run()) FAIL_CHECK(s.name << ": " << text);
    MESSAGE(s.name << ": " << w.model.states() << " states");
    CHECK(w.model.states() > 500);
  }
}

TEST_CASE("a writer that does not wait for readers is caught") {
  for (const Scenario& s : {kScenarios[0], kScenarios[3]}) {
    World w;
    s.set_up(w);
    w.model.blind(World::kWriter, w.lines[0], sizeof(Epochs::Line) * 2);
    CHECK_MESSAGE(!w.model.run().empty(), s.name);
  }
}

TEST_CASE("neighbouring stores of the writer, swapped") {
  const size_t scenarios = some_of(std::size(kScenarios));
  for (const Scenario& s : std::span(kScenarios, scenarios)) {
    int stores = 0;
    {
      World w;
      s.set_up(w);
      w.model.run();
      stores = w.model.stores(World::kWriter);
    }
    std::vector<int> caught;
    for (int n = 0; n + 1 < stores; ++n) {
      // That the order of the others is free is no guarantee that anybody needs: --full only.
      if (!full_run() && std::find(s.order.begin(), s.order.end(), n) == s.order.end()) continue;
      World w;
      s.set_up(w);
      w.model.swap_stores(World::kWriter, n);
      if (!w.model.run().empty()) caught.push_back(n);
    }
    CHECK_MESSAGE(caught == s.order, s.name);
  }
}

}  // namespace
}  // namespace dpi::test::schedule_test
