// Versions of rows: what changes lies in spare rows, goes home when nobody reads those at home, and not
// before; a reader never sees a row change. Every step is taken by hand here, so that each wrong order shows:
// the mutants overlay_undrained (merged while an old version reads), overlay_early (a row is asked for at
// home before its bytes are there) and overlay_reuse (a spare row is given out while a version knows it).
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <tuple>
#include <unordered_map>

#include "backend/abi/registry.hpp"
#include "store/resident/spare_rows.hpp"

namespace dpi::test::spare_rows_test {
namespace {

constexpr int64_t kRows = 100, kStride = 16, kSpare = 8;

/// `ref`; who looks on hears of each upload before it happens.
struct Device {
  Device() : api(*backend::ref_backend()) {
    dpi_backend_options options{};
    options.struct_size = sizeof options;
    options.device_index = -1;
    options.isa = "auto";
    dpi_backend_error err{};
    REQUIRE(api.open(&options, &device, &err) == 0);
    real_upload = api.upload;
    api.upload = [](dpi_backend_device* d, void* to, const void* from, size_t bytes, dpi_backend_error* e) {
      if (on_upload) on_upload();
      return real_upload(d, to, from, bytes, e);
    };
  }
  ~Device() {
    on_upload = nullptr;
    api.close(device);
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  dpi_backend_api api;
  dpi_backend_device* device = nullptr;
  static inline std::function<void()> on_upload;
  static inline decltype(dpi_backend_api::upload) real_upload = nullptr;
};

/// A table whose rows hold their number and the version that wrote them.
struct Table {
  explicit Table(Device& d) {
    auto made = TableBlock::allocate(&d.api, d.device, nullptr, (kRows + kSpare) * kStride, kSpare);
    REQUIRE(made.ok());
    block = std::move(made).value();
    as_loaded = std::make_shared<SharedBlock>(block);
    for (int32_t r = 0; r < kRows; ++r) write(r, r, 1);
    SpareRows::Part part;
    part.block = block;
    part.as_loaded = as_loaded;
    part.stride = kStride;
    rows = SpareRows::make(kRows, {part});
    REQUIRE(rows != nullptr);
  }
  void write(int32_t place, int32_t row, int32_t version) {
    const int32_t bytes[kStride / 4] = {row, version, 0, 0};
    std::memcpy(block->base() + place * kStride, bytes, sizeof bytes);
  }
  /// The version that the row which a reader gets says it is of; -1: it is another row.
  int32_t read(const RowVersion& v, int32_t row) const {
    const int32_t place = v.overlay().empty() ? row : v.overlay().place(row);
    int32_t bytes[2];
    std::memcpy(bytes, block->base() + place * kStride, sizeof bytes);
    return bytes[0] == row ? bytes[1] : -1;
  }
  std::shared_ptr<RowVersion> next(const RowVersion& before, std::vector<int32_t> changed, int32_t version) {
    std::shared_ptr<RowVersion> v = rows->next(before, changed);
    if (v == nullptr) return v;
    for (const MovedRow& m : v->fresh()) write(m.place, m.row, version);
    return v;
  }

  std::shared_ptr<TableBlock> block;
  std::shared_ptr<SharedBlock> as_loaded;
  std::shared_ptr<SpareRows> rows;
};

}  // namespace

TEST_CASE("an overlay says where rows are, and leaves the others") {
  std::mt19937 rng(3);
  for (const int32_t n : {1, 2, 3, 50, 1000, 40000}) {
    CAPTURE(n);
    std::unordered_map<int32_t, int32_t> want;
    while (static_cast<int32_t>(want.size()) < n)
      want.try_emplace(static_cast<int32_t>(rng() % 2'000'000'000), static_cast<int32_t>(want.size()));
    std::vector<MovedRow> moved;
    for (const auto& [row, place] : want) moved.push_back({row, INT32_MAX - place});
    std::sort(moved.begin(), moved.end(), [](const auto& a, const auto& b) { return a.row < b.row; });
    const RowOverlay overlay(moved);
    for (const auto& [row, place] : want) CHECK(overlay.place(row) == INT32_MAX - place);
    for (int i = 0; i < 20000; ++i) {
      const auto row = static_cast<int32_t>(i % 2 == 0 ? i : rng() % 2'000'000'000);
      if (!want.contains(row)) REQUIRE(overlay.place(row) == row);
    }
  }
  CHECK(RowOverlay().empty());
  CHECK(!RowOverlay().has(0));
}

TEST_CASE("a row goes home when no version reads it there, and not before") {
  Device device;
  Table t(device);
  auto v1 = t.rows->first();
  auto v2 = t.next(*v1, {3, 50}, 2);
  REQUIRE(v2 != nullptr);
  REQUIRE(t.rows->merge(*v2).ok());  // the block is as it was loaded for v1's model
  CHECK(t.read(*v1, 3) == 1);
  CHECK(t.read(*v2, 3) == 2);
  t.as_loaded.reset();
  REQUIRE(t.rows->merge(*v2).ok());  // and v1 is there
  CHECK(t.read(*v1, 3) == 1);
  CHECK(v2->overlay().has(3));
  auto v3 = t.next(*v2, {50, 99}, 3);
  REQUIRE(v3 != nullptr);
  v1.reset();
  REQUIRE(t.rows->merge(*v3).ok());  // row 3 is elsewhere in both; 99 is read at home by v2
  CHECK(!v3->overlay().has(3));
  CHECK(v3->overlay().has(99));
  CHECK(!v3->overlay().has(50));  // in both, and of the newest
  for (const auto& [row, second, third] : {std::tuple(3, 2, 2), {50, 2, 3}, {99, 1, 3}, {4, 1, 1}}) {
    CAPTURE(row);
    CHECK(t.read(*v2, row) == second);
    CHECK(t.read(*v3, row) == third);
  }
  v2.reset();
  REQUIRE(t.rows->merge(*v3).ok());
  CHECK(v3->overlay().empty());
  CHECK(t.read(*v3, 99) == 3);
}

TEST_CASE("a model that reads the block as it was loaded keeps its rows") {
  Device device;
  Table t(device);
  auto v2 = t.next(*t.rows->first(), {3}, 2);
  REQUIRE(t.rows->merge(*v2).ok());  // no version reads row 3 at home, but such a model does
  int32_t home[2];
  std::memcpy(home, t.block->base() + 3 * kStride, sizeof home);
  CHECK(home[1] == 1);
  CHECK(t.read(*v2, 3) == 2);
}

TEST_CASE("a row is asked for at home only when its bytes are there") {
  Device device;
  Table t(device);
  auto v1 = t.rows->first();
  auto v2 = t.next(*v1, {7, 8, 9}, 2);
  v1.reset();
  t.as_loaded.reset();
  int uploads = 0;
  Device::on_upload = [&] {
    ++uploads;
    for (const int32_t row : {7, 8, 9}) CHECK(t.read(*v2, row) == 2);
  };
  REQUIRE(t.rows->merge(*v2).ok());
  CHECK(uploads == 3);
  for (const int32_t row : {7, 8, 9}) CHECK(t.read(*v2, row) == 2);
}

TEST_CASE("a spare row is given out again when no version knows it any more") {
  Device device;
  Table t(device);
  auto v1 = t.rows->first();
  t.as_loaded.reset();
  CHECK(t.rows->next(*v1, std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8}) == nullptr);  // there are eight
  auto v2 = t.next(*v1, {0, 1, 2, 3, 4}, 2);
  REQUIRE(v2 != nullptr);
  v1.reset();
  REQUIRE(t.rows->merge(*v2).ok());
  CHECK(v2->overlay().empty());
  CHECK(t.rows->free_rows() == 3);  // a call that began before may be reading the others
  CHECK(t.next(*v2, {0, 1, 2, 3}, 3) == nullptr);
  auto v3 = t.next(*v2, {0, 1, 2}, 3);
  REQUIRE(v3 != nullptr);
  v2.reset();
  CHECK(t.rows->free_rows() == 5);
  v3.reset();
  CHECK(t.rows->free_rows() == 8);
}

TEST_CASE("versions in any order keep what each one has") {
  Device device;
  std::mt19937 rng(11);
  for (int round = 0; round < 200; ++round) {
    Table t(device);
    struct Known {
      std::shared_ptr<RowVersion> version;
      std::vector<int32_t> says;
    };
    std::vector<Known> known{{t.rows->first(), std::vector<int32_t>(kRows, 1)}};
    for (int32_t step = 2; step < 40; ++step) {
      const size_t newest = known.size() - 1;
      std::vector<int32_t> changed;
      for (int32_t r = 0; r < kRows; ++r)
        if (rng() % 40 == 0) changed.push_back(r);
      Known next{t.next(*known[newest].version, changed, step), known[newest].says};
      for (const int32_t r : changed) next.says[static_cast<size_t>(r)] = step;
      if (next.version != nullptr) known.push_back(std::move(next));
      if (step == 5) t.as_loaded.reset();
      if (rng() % 2 == 0 && known.size() > 1)  // any but the newest goes, or the newest (a rollback)
        known.erase(known.begin() + static_cast<int64_t>(rng() % known.size()));
      REQUIRE(t.rows->merge(*known.back().version).ok());
      for (const Known& k : known)
        for (int32_t r = 0; r < kRows; ++r) REQUIRE(t.read(*k.version, r) == k.says[static_cast<size_t>(r)]);
    }
  }
}

TEST_CASE("spare rows of a block are one group's at a time") {
  Device device;
  Table t(device);
  SpareRows::Part part;
  part.block = t.block;
  part.stride = kStride;
  CHECK(SpareRows::make(kRows, {part}) == nullptr);
  t.rows.reset();
  CHECK(SpareRows::make(kRows, {part}) != nullptr);
}

}  // namespace dpi::test::spare_rows_test
