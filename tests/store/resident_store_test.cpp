// The resident store in host memory and in the memory of a pretended device (uploads and downloads only):
// every row reads back, derived scalars ride in padding, forecasts are exact, and loading an incomplete table
// set fails.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include <dpi/kernels/row_decode.hpp>

#include "backend/abi/registry.hpp"
#include "store/arena_map.hpp"
#include "store/resident/resident_store.hpp"
#include "support/forwarding_store.hpp"

namespace dpi::test::resident_store_test {
namespace {

using kernels::DType;

/// `ref` as it is, or with the host-memory flag taken away and its memory counted: what the store sees of a
/// GPU.
struct Device {
  explicit Device(bool host) : api(*backend::ref_backend()) {
    dpi_backend_options options{};
    options.struct_size = sizeof options;
    options.device_index = -1;
    options.isa = "auto";
    dpi_backend_error err{};
    REQUIRE(api.open(&options, &device, &err) == 0);
    allocated_bytes = 0;
    real_alloc = api.alloc;
    real_caps = api.caps;
    api.alloc = [](dpi_backend_device* d, size_t bytes, int32_t kind, void** out, dpi_backend_error* e) {
      allocated_bytes += bytes;
      const int32_t rc = real_alloc(d, bytes, kind, out, e);
      if (rc == 0) std::memset(*out, 0xFF, bytes);  // NaN: what is not written shows
      return rc;
    };
    if (!host) {
      api.caps = [](dpi_backend_device* d, dpi_backend_caps* out, dpi_backend_error* e) {
        const int32_t rc = real_caps(d, out, e);
        out->flags &= ~static_cast<uint32_t>(DPI_BACKEND_HOST_MEMORY);
        out->memory_free = uint64_t{1} << 30;
        return rc;
      };
    }
  }
  ~Device() { api.close(device); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  dpi_backend_api api;
  dpi_backend_device* device = nullptr;
  static inline uint64_t allocated_bytes = 0;
  static inline int32_t (*real_alloc)(dpi_backend_device*, size_t, int32_t, void**,
                                      dpi_backend_error*) = nullptr;
  static inline int32_t (*real_caps)(dpi_backend_device*, dpi_backend_caps*, dpi_backend_error*) = nullptr;
};

StoreTable table(const std::string& name, int64_t rows, int32_t dim, DType dtype = DType::kF32,
                 int32_t ride = -1) {
  StoreTable t;
  t.name = name;
  t.rows = rows;
  t.dim = dim;
  t.dtype = dtype;
  t.ride_with = ride;
  return t;
}

/// Random bytes in the table's type: small integers, exact in every type; every third row is zero.
std::vector<std::byte> random_rows(const StoreTable& t, std::mt19937* rng) {
  const int64_t row = kernels::row_bytes_of(t.dtype, t.dim);
  std::vector<std::byte> out(static_cast<size_t>(t.rows * row));
  if (kernels::row_form(t.dtype).whole) {  // elements that add up, and a scale of 1
    for (int64_t r = 0; r < t.rows; ++r) {
      std::byte* const at = out.data() + r * row;
      const int64_t n = kernels::element_row_bytes(t.dtype, t.dim);
      for (int64_t i = 0; i < n && r % 3 != 2; ++i) at[i] = static_cast<std::byte>((*rng)() % 100 | 0x11);
      const uint32_t scale = t.dtype == DType::kFp8 ? 0x3F800000u : 0x3C00u;
      std::memcpy(at + n, &scale, sizeof scale);
    }
    return out;
  }
  for (int64_t i = 0; i < t.rows * t.dim; ++i) {
    const int v = (i / t.dim) % 3 == 2 ? 0 : static_cast<int>((*rng)() % 100) + 1;
    const float f = static_cast<float>(v);
    if (t.dtype == DType::kF32) std::memcpy(out.data() + i * 4, &f, 4);
    if (t.dtype == DType::kI8) out[static_cast<size_t>(i)] = static_cast<std::byte>(v);
    if (t.dtype == DType::kBF16) std::memcpy(out.data() + i * 2, reinterpret_cast<const char*>(&f) + 2, 2);
    if (t.dtype == DType::kF16) {  // a normal half below 2: mantissa bits are the value
      const auto h = static_cast<uint16_t>(v == 0 ? 0 : 0x3C00 + v);
      std::memcpy(out.data() + i * 2, &h, 2);
    }
  }
  return out;
}

/// Every row of the view against the bytes that were ingested.
void check_rows(const kernels::TableView& v, const StoreTable& t, const std::vector<std::byte>& rows) {
  const auto row_bytes = static_cast<size_t>(kernels::row_bytes_of(t.dtype, t.dim));
  REQUIRE(v.rows == t.rows);
  REQUIRE(v.dim == t.dim);
  CHECK(v.dtype == t.dtype);
  CHECK(v.row_bytes >= static_cast<int64_t>(row_bytes));
  int64_t wrong = 0;
  for (int64_t r = 0; r < t.rows; ++r) {
    const auto* at = static_cast<const std::byte*>(v.base) + r * v.row_bytes;
    wrong += std::memcmp(at, rows.data() + static_cast<size_t>(r) * row_bytes, row_bytes) == 0 ? 0 : 1;
  }
  CHECK_MESSAGE(wrong == 0, t.name);
}

void ingest_in_blocks(TableStore* store, int32_t index, const StoreTable& t,
                      const std::vector<std::byte>& rows, int64_t block) {
  const int64_t row_bytes = kernels::row_bytes_of(t.dtype, t.dim);
  for (int64_t r = 0; r < t.rows; r += block) {
    const int64_t n = std::min(block, t.rows - r);
    const Status s = store->ingest(
        index, r, n,
        std::span(rows).subspan(static_cast<size_t>(r * row_bytes), static_cast<size_t>(n * row_bytes)));
    REQUIRE_MESSAGE(s.ok(), s.message());
  }
}

TEST_CASE("rows of every type and width read back, with riders") {
  for (const bool host : {true, false}) {
    CAPTURE(host);
    Device device(host);
    std::vector<StoreTable> tables;
    for (const int32_t dim : {1, 3, 4, 8, 9, 16, 17, 31, 33, 64}) {
      for (const DType dtype :
           {DType::kF32, DType::kF16, DType::kBF16, DType::kI8, DType::kI4, DType::kI2, DType::kFp8}) {
        tables.push_back(table("t" + std::to_string(tables.size()), 1 + (dim * 37) % 131, dim, dtype));
        tables.back().needs_nonzero = true;
      }
    }
    const auto carriers = static_cast<int32_t>(tables.size());
    for (int32_t c = 0; c < carriers; ++c)
      tables.push_back(table("r" + std::to_string(c), tables[c].rows, 2, DType::kF32, c));
    tables.push_back(table("second", tables[12].rows, 1, DType::kF32, 12));
    const auto store = make_resident_store(&device.api, device.device, 0);
    const auto forecast = store->plan(tables);
    REQUIRE_MESSAGE(forecast.ok(), forecast.status().message());
    CHECK((host ? forecast->host_bytes : forecast->device_bytes) > 0);
    CHECK((host ? forecast->device_bytes : forecast->host_bytes) == 0);
    CHECK(Device::allocated_bytes == 0);
    std::mt19937 rng(5);
    std::vector<std::vector<std::byte>> rows;
    std::vector<std::vector<float>> scales(tables.size());
    for (size_t t = 0; t < tables.size(); ++t) {
      rows.push_back(random_rows(tables[t], &rng));
      const auto index = static_cast<int32_t>(t);
      if (tables[t].dtype == DType::kI8) {
        for (int64_t r = 0; r < tables[t].rows; ++r) scales[t].push_back(0.5f + static_cast<float>(r));
        REQUIRE(store->ingest_scale(index, scales[t]).ok());
      }
      ingest_in_blocks(store.get(), index, tables[t], rows[t], t % 2 == 0 ? 7 : 1000);
    }
    REQUIRE(store->seal().ok());
    CHECK(Device::allocated_bytes == (host ? forecast->host_bytes : forecast->device_bytes));
    for (size_t t = 0; t < tables.size(); ++t) {
      const kernels::TableView v = view_of(*store, static_cast<int32_t>(t));
      check_rows(v, tables[t], rows[t]);
      for (int64_t r = 0; r < tables[t].rows && !scales[t].empty(); ++r)
        CHECK(v.scale[r * v.scale_stride] == scales[t][r]);
      CHECK((v.nonzero != nullptr) == tables[t].needs_nonzero);
      for (int64_t r = 0; r < tables[t].rows && v.nonzero != nullptr; ++r) {
        CHECK(((v.nonzero[r / 64] >> (r % 64)) & 1) == (r % 3 == 2 ? 0u : 1u));
      }
    }
    CHECK(store->open_reader({}).value()->acquire({}).value() == Readiness::kReady);
  }
}

TEST_CASE("rows that are written where they will lie") {
  Device device(true);
  const std::vector<StoreTable> tables = {table("a", 100, 16), table("padded", 100, 9),
                                          table("i8", 50, 32, DType::kI8), table("none", 0, 16)};
  const auto store = make_resident_store(&device.api, device.device, 0);
  REQUIRE(store->plan(tables).ok());
  CHECK(store->room(0).size() == 6400);
  CHECK(store->room(1).empty());
  CHECK(store->room(2).size() == 1600);
  CHECK(store->room(3).empty());
  std::mt19937 rng(5);
  REQUIRE(store->ingest_scale(2, std::vector<float>(50, 1.0f)).ok());
  for (int32_t t = 0; t < 3; ++t) {
    const auto rows = random_rows(tables[static_cast<size_t>(t)], &rng);
    const std::span<std::byte> room = store->room(t);
    std::span<const std::byte> from = rows;
    if (!room.empty()) {
      std::copy(rows.begin(), rows.end(), room.begin());
      from = room;
    }
    REQUIRE(store->ingest(t, 0, tables[static_cast<size_t>(t)].rows, from).ok());
    check_rows(view_of(*store, t), tables[static_cast<size_t>(t)], rows);
    if (!room.empty()) CHECK(view_of(*store, t).base == room.data());
  }
  CHECK(store->seal().ok());
  Device other(false);
  const auto away = make_resident_store(&other.api, other.device, 0);
  REQUIRE(away->plan(tables).ok());
  CHECK(away->room(0).empty());
}

TEST_CASE("a row whose parts cancel is zero by its float32 sum") {
  Device device(true);
  const auto store = make_resident_store(&device.api, device.device, 0);
  auto t = table("t", 4, 3);
  t.needs_nonzero = true;
  REQUIRE(store->plan({t}).ok());
  const float rows[] = {1, -1, 0, 1, -1, 1, 0, 0, 0, 1e8f, 1, -1e8f};
  REQUIRE(store->ingest(0, 0, 4, std::as_bytes(std::span(rows))).ok());
  REQUIRE(store->seal().ok());
  CHECK((view_of(*store, 0).nonzero[0] & 15) == 2);  // 1e8 + 1 - 1e8 is 0 in float32
}

TEST_CASE("places: strides, alignment, riders, disjoint rows") {
  const std::vector<StoreTable> tables = {table("a", 100, 16),
                                          table("b", 10, 1),
                                          table("c", 7, 17),
                                          table("d", 5, 9),
                                          table("e", 5, 7, DType::kF32, 3),
                                          table("f", 5, 1, DType::kF32, 3),
                                          table("g", 33, 5, DType::kF16)};
  for (const bool widen : {false, true}) {
    const auto l = make_arena_map(tables, widen);
    REQUIRE(l.ok());
    CHECK(l->tables[0].stride == 64);
    CHECK(l->tables[1].stride == 4);
    CHECK(l->tables[2].stride == 96);
    CHECK(l->tables[3].stride == 64);
    CHECK(l->tables[6].stride == 16);
    CHECK(l->tables[4].offset == l->tables[3].offset + 36);  // 36 + 28 = 64 bytes: rides
    CHECK(l->tables[4].stride == 64);
    CHECK(l->tables[5].stride == 4);  // no room left: on its own
    CHECK(std::accumulate(l->tables.begin(), l->tables.end(), uint64_t{0},
                          [](uint64_t sum, const ArenaMap::Table& t) { return sum + t.bytes; }) == l->bytes);
    for (size_t t : {size_t{0}, size_t{1}, size_t{2}, size_t{3}, size_t{5}, size_t{6}})
      CHECK(l->tables[t].offset % 64 == 0);
  }
}

TEST_CASE("places: widening takes riders into 64 bytes") {
  const std::vector<StoreTable> tables = {table("a", 9, 8), table("b", 9, 1, DType::kF32, 0)};
  CHECK(make_arena_map(tables, false)->tables[0].stride == 32);
  CHECK(make_arena_map(tables, true)->tables[0].stride == 64);
  CHECK(make_arena_map(tables, true)->tables[1].offset == 32);
}

TEST_CASE("places: nothing rides with a table that rides, or with itself") {
  const auto map =
      make_arena_map({table("a", 9, 4), table("b", 9, 1, DType::kF32, 0), table("c", 9, 1, DType::kF32, 1),
                      table("d", 9, 1, DType::kF32, 3), table("e", 8, 1, DType::kF32, 0)},
                     true);
  REQUIRE(map.ok());
  CHECK(map->tables[1].offset == map->tables[0].offset + 16);
  for (const size_t t : {size_t{2}, size_t{3}, size_t{4}}) {  // e has other rows
    CHECK(map->tables[t].stride == 4);
    CHECK(map->tables[t].offset % 64 == 0);
  }
}

TEST_CASE("places: 64-bit offsets, and sizes that overflow") {
  const auto big = make_arena_map({table("a", INT32_MAX - 1, 16), table("b", INT32_MAX - 1, 16)}, true);
  REQUIRE(big.ok());
  CHECK(big->tables[1].offset == int64_t{64} * (INT32_MAX - 1));
  std::vector<StoreTable> many(400, table("x", INT32_MAX - 1, 65536));
  CHECK(make_arena_map(many, true).status().code() == Code::kOutOfMemory);
  auto scaled =
      table("x", INT32_MAX - 1, 32768, DType::kI8);  // 2^46 - 65536 bytes: rows fit, their scales do not
  CHECK(make_arena_map({scaled}, true).status().code() == Code::kOutOfMemory);
}

TEST_CASE("a budget is checked before anything is allocated") {
  Device device(true);
  const auto small = make_resident_store(&device.api, device.device, 1000);
  const auto refused = small->plan({table("t", 1000, 16)});
  CHECK(refused.status().code() == Code::kOutOfMemory);
  CHECK(make_resident_store(&device.api, device.device, 64000)->plan({table("t", 1000, 16)}).ok());
  CHECK(
      make_resident_store(&device.api, device.device, 63999)->plan({table("t", 1000, 16)}).status().code() ==
      Code::kOutOfMemory);
  Device gpu(false);  // 1 GiB free
  const auto store = make_resident_store(&gpu.api, gpu.device, 0);
  CHECK(store->plan({table("t", 17'000'000, 16)}).status().code() == Code::kOutOfMemory);
  CHECK(Device::allocated_bytes == 0);
}

TEST_CASE("loads that are not complete or not in order fail") {
  Device device(true);
  const std::vector<float> rows(48, 1.0f);
  const auto bytes = std::as_bytes(std::span(rows));
  const auto make = [&](DType dtype) {
    auto store = make_resident_store(&device.api, device.device, 0);
    REQUIRE(store->plan({table("t", 12, 4, dtype)}).ok());
    return store;
  };
  CHECK_FALSE(make(DType::kF32)->seal().ok());
  auto half = make(DType::kF32);
  REQUIRE(half->ingest(0, 0, 6, bytes.first(96)).ok());
  CHECK_FALSE(half->seal().ok());
  CHECK_FALSE(half->ingest(0, 0, 6, bytes.first(96)).ok());   // again
  CHECK_FALSE(half->ingest(0, 8, 4, bytes.first(64)).ok());   // a hole
  CHECK_FALSE(half->ingest(0, 6, 7, bytes.first(112)).ok());  // too many
  CHECK_FALSE(half->ingest(0, 6, 6, bytes.first(95)).ok());   // too few bytes
  CHECK(half->ingest(0, 6, 6, bytes.subspan(96)).ok());
  CHECK(half->seal().ok());
  auto scaled = make(DType::kI8);
  REQUIRE(scaled->ingest(0, 0, 12, bytes.first(48)).ok());
  CHECK_FALSE(scaled->seal().ok());
  CHECK_FALSE(scaled->ingest_scale(0, std::span(rows).first(11)).ok());
  CHECK(scaled->ingest_scale(0, std::span(rows).first(12)).ok());
  CHECK(scaled->seal().ok());
  CHECK_FALSE(make(DType::kF32)->ingest_scale(0, std::span(rows).first(12)).ok());
}

/// A device whose copies of rows end when their stream is waited for, the last of them badly.
int32_t copies_left = 0;

TEST_CASE("a copy of rows that fails after it was started fails the load") {
  for (const int32_t good : {0, 1, 2, 100}) {
    CAPTURE(good);
    Device device(false);
    device.api.place_rows = [](dpi_backend_stream*, void* dst, size_t stride, const void* rows, size_t bytes,
                               int64_t n, dpi_backend_error*) {
      for (int64_t r = 0; r < n; ++r)
        std::memcpy(static_cast<char*>(dst) + static_cast<size_t>(r) * stride,
                    static_cast<const char*>(rows) + static_cast<size_t>(r) * bytes, bytes);
      return int32_t{0};
    };
    device.api.stream_synchronize = [](dpi_backend_stream*, dpi_backend_error* err) {
      std::strcpy(err->message, "lost");
      return copies_left-- > 0 ? int32_t{0} : static_cast<int32_t>(Code::kDevice);
    };
    copies_left = good;
    const StoreTable t = table("t", 10, 4);
    const auto store = make_resident_store(&device.api, device.device, 0);
    REQUIRE(store->plan({t}).ok());
    std::mt19937 rng(5);
    const Status came = store->ingest(0, 0, 10, random_rows(t, &rng));
    const Status sealed = came.ok() ? store->seal() : came;
    CHECK(sealed.ok() == (good == 100));
    if (good == 1) CHECK(came.ok());  // told by seal
  }
}

TEST_CASE("scales come before rows where nonzero bits depend on them") {
  Device device(true);
  auto t = table("t", 3, 2, DType::kI8);
  t.needs_nonzero = true;
  const auto store = make_resident_store(&device.api, device.device, 0);
  REQUIRE(store->plan({t}).ok());
  const int8_t rows[] = {1, 2, 0, 0, 3, -3};
  CHECK_FALSE(store->ingest(0, 0, 3, std::as_bytes(std::span(rows))).ok());
  const float scale[] = {1, 1, 1};
  REQUIRE(store->ingest_scale(0, scale).ok());
  REQUIRE(store->ingest(0, 0, 3, std::as_bytes(std::span(rows))).ok());
  REQUIRE(store->seal().ok());
  CHECK((view_of(*store, 0).nonzero[0] & 7) == 1);
}

}  // namespace
}  // namespace dpi::test::resident_store_test
