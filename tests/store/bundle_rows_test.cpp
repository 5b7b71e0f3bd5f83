// Rows where a bundle has them: as they are, narrowed, of i8 with their scales, and behind those of the file;
// and the store over them: what it refuses, and a deadline while the file does not answer. Expected numbers
// are written out or rounded in float64. Planted faults: a wide row whose later columns are its first again,
// truncation for rounding, the first row behind for every one, no look at the clock, a deadline that the
// cache is not told; of rows at hand: the last part of a row deciding for all, a short read taken for a whole
// one, no end of what the disk is asked for, the disk asked row by row.
#include "store/host_tier/bundle_rows.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <thread>

#include "backend/abi/registry.hpp"
#include "base/clock.hpp"
#include "store/host_tier/tiered_store.hpp"
#include "store/resident/resident_store.hpp"

namespace dpi::test::bundle_rows_test {
namespace {

using kernels::DType;

/// A file in memory. Closed, it answers nobody. Its bytes before `cached` are at hand.
class Bytes final : public ByteSource {
 public:
  explicit Bytes(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) { size_ = bytes_.size(); }
  Status read(uint64_t offset, void* dst, size_t n) override {
    while (closed) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (reads++ == 0) asked_before = asked;
    REQUIRE(offset + n <= bytes_.size());
    std::memcpy(dst, bytes_.data() + offset, n);
    return {};
  }
  bool read_cached(uint64_t offset, void* dst, size_t n) override {
    ++asked;
    if (offset + n > cached) return false;
    std::memcpy(dst, bytes_.data() + offset, n);
    return true;
  }
  std::atomic<bool> closed{false};
  uint64_t cached = 0;
  int asked = 0, asked_before = 0, reads = 0;  // asked_before: the first read

 private:
  const std::vector<std::byte> bytes_;
};

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& v) {
  return std::as_bytes(std::span(v));
}

/// `before` bytes of something else, then the values.
template <class T>
std::shared_ptr<Bytes> file_of(size_t before, const std::vector<T>& values) {
  std::vector<std::byte> bytes(before, std::byte{0x77});
  const auto add = bytes_of(values);
  bytes.insert(bytes.end(), add.begin(), add.end());
  return std::make_shared<Bytes>(std::move(bytes));
}

/// Asks for one row; what came, empty when it is absent.
std::vector<std::byte> fetch(BundleRows& rows, int64_t key, size_t bytes) {
  std::vector<std::byte> row(bytes, std::byte{0xEE});
  std::byte* to = row.data();
  uint64_t found = 0;
  REQUIRE(rows.fetch({0, {&key, 1}, &to, &found, 0}).ok());
  if (found == 0) row.clear();
  return row;
}

std::vector<float> wave(int64_t n) {
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<float>(std::sin(static_cast<double>(i)) * 3));
  return values;
}

/// To `bits` bits of mantissa, ties to even, as a normal number.
double rounded(double x, int bits) {
  const double unit = std::ldexp(1.0, std::ilogb(x) - bits);
  return std::nearbyint(x / unit) * unit;
}

double value_of(uint16_t bits, DType dtype) {
  const int exponent = dtype == DType::kF16 ? (bits >> 10) & 31 : (bits >> 7) & 255;
  const int mantissa = dtype == DType::kF16 ? bits & 1023 : bits & 127;
  const double size = dtype == DType::kF16 ? std::ldexp(1024 + mantissa, exponent - 25)
                                           : std::ldexp(128 + mantissa, exponent - 134);
  return (bits & 0x8000) != 0 ? -size : size;
}

/// A file of rows on the disk, and what is done to it while it is open.
struct OnDisk {
  static constexpr int64_t kRows = 64, kDim = 4;
  std::string path = std::filesystem::temp_directory_path() / ("dpi_rows_" + std::to_string(getpid()));
  std::vector<float> values = wave(kRows * kDim);

  OnDisk() { write(path, values, O_TRUNC); }
  ~OnDisk() {
    std::filesystem::remove(path);
    std::filesystem::remove(path + ".other");
  }
  static void write(const std::string& to, const std::vector<float>& v, int flags) {
    const int fd = open(to.c_str(), O_WRONLY | O_CREAT | flags, 0600);
    REQUIRE(fd >= 0);
    const auto bytes = static_cast<ssize_t>(v.size() * sizeof(float));
    CHECK(::write(fd, v.data(), static_cast<size_t>(bytes)) == bytes);
    close(fd);
  }
  BundleRows rows() const {
    return {
        ByteSource::open_file(path).value(), "name.h5", {{"t", kRows, kDim, DType::kF32, DType::kF32, 0, 0}}};
  }
};

/// How a row is asked for: waiting for the disk, or only if it is at hand. Whether it was given.
std::pair<Status, bool> ask(BundleRows& rows, int64_t key, bool wait, std::vector<float>* row) {
  auto* to = reinterpret_cast<std::byte*>(row->data());
  uint64_t found = 0;
  const tiered::FetchRequest request{0, {&key, 1}, &to, &found, 0};
  Status s;
  if (wait) {
    s = rows.fetch(request);
  } else {
    rows.fetch_ready(request);
  }
  return {s, found != 0};
}

TEST_CASE("rows of a file that was written to after it was opened are refused, whatever it has now") {
  using Act = void (*)(OnDisk&);
  const Act acts[] = {[](OnDisk& f) {
                        OnDisk::write(f.path, std::vector<float>(f.values.size(), 7), O_TRUNC);
                      },  // as cp does
                      [](OnDisk& f) { OnDisk::write(f.path, {7, 7, 7}, 0); },
                      [](OnDisk& f) { std::filesystem::resize_file(f.path, 4096); },
                      [](OnDisk& f) {  // shrunk and grown again: zeros
                        std::filesystem::resize_file(f.path, 16);
                        std::filesystem::resize_file(f.path, f.values.size() * sizeof(float));
                      },
                      [](OnDisk& f) { OnDisk::write(f.path, {7}, O_APPEND); }};
  for (const Act act : acts) {
    OnDisk file;
    std::this_thread::sleep_for(
        std::chrono::milliseconds(20));  // more than a file system's clock takes for a step
    BundleRows rows = file.rows();
    std::vector<float> row(OnDisk::kDim);
    CHECK(ask(rows, 3, true, &row).second);
    act(file);
    for (const int64_t key : {int64_t{0}, int64_t{3}, OnDisk::kRows - 1}) {
      const Status s = ask(rows, key, true, &row).first;
      CHECK(s.code() == Code::kIo);
      CHECK_MESSAGE(s.message().find("name.h5") != std::string::npos, s.message());
      CHECK(!ask(rows, key, false, &row).second);
    }
  }
}

TEST_CASE("rows of a file that is replaced, renamed or removed are those that were opened") {
  using Act = void (*)(OnDisk&);
  const Act acts[] = {[](OnDisk& f) { std::filesystem::rename(f.path, f.path + ".other"); },
                      [](OnDisk& f) { std::filesystem::remove(f.path); },
                      [](OnDisk& f) {
                        OnDisk::write(f.path + ".other", std::vector<float>(f.values.size(), 7), O_TRUNC);
                        std::filesystem::rename(f.path + ".other", f.path);
                      }};
  for (const Act act : acts) {
    OnDisk file;
    BundleRows rows = file.rows();
    act(file);
    for (int64_t key = 0; key < OnDisk::kRows; ++key) {
      std::vector<float> row(OnDisk::kDim, std::nanf(""));
      const auto [s, found] = ask(rows, key, true, &row);
      CHECK_MESSAGE(s.ok(), s.message());
      CHECK(found);
      CHECK(std::equal(row.begin(), row.end(), file.values.begin() + key * OnDisk::kDim));
    }
  }
}

TEST_CASE("rows of float32 are narrowed to the nearest, however wide") {
  constexpr int32_t kDim = 600;
  const std::vector<float> values = wave(3 * kDim);
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    BundleRows rows(file_of(40, values), "a file", {{"wide", 3, kDim, DType::kF32, dtype, 40, 0}});
    for (int64_t row = 0; row < 3; ++row) {
      const auto got = fetch(rows, row, kDim * sizeof(uint16_t));
      REQUIRE(got.size() == kDim * sizeof(uint16_t));
      for (size_t c = 0; c < kDim; ++c) {
        uint16_t bits = 0;
        std::memcpy(&bits, got.data() + c * sizeof bits, sizeof bits);
        const double x = values[static_cast<size_t>(row) * kDim + c];
        if (std::abs(x) < 1e-4) continue;  // half has no normal numbers there
        REQUIRE(value_of(bits, dtype) == rounded(x, dtype == DType::kF16 ? 10 : 7));
      }
    }
  }
}

TEST_CASE("rows as they are, behind those of the file, and none outside") {
  const std::vector<float> in_file = {1, 2, 3, 4, 5, 6}, behind = {7, 8, 9, 10};
  BundleRows rows(file_of(4, in_file), "a file", {{"t", 3, 2, DType::kF32, DType::kF32, 4, 0}});
  rows.add_rows(0, bytes_of(behind));
  for (int64_t row = 0; row < 5; ++row) {
    const auto got = fetch(rows, row, 8);
    REQUIRE(got.size() == 8);
    const float want[] = {static_cast<float>(2 * row + 1), static_cast<float>(2 * row + 2)};
    CHECK(std::memcmp(got.data(), want, 8) == 0);
  }
  CHECK(fetch(rows, 5, 8).empty());
  CHECK(fetch(rows, -1, 8).empty());
}

TEST_CASE("rows of i8 have their scales behind them, at a multiple of four") {
  std::vector<std::byte> bytes = {std::byte{1}, std::byte{2}, std::byte{3},
                                  std::byte{4}, std::byte{5}, std::byte{6}};
  const std::vector<float> scales = {0.5f, 0.25f};
  bytes.insert(bytes.end(), bytes_of(scales).begin(), bytes_of(scales).end());
  BundleRows rows(std::make_shared<Bytes>(bytes), "a file", {{"t", 2, 3, DType::kI8, DType::kI8, 0, 6}});
  for (int64_t row = 0; row < 2; ++row) {
    const auto got = fetch(rows, row, 8);
    REQUIRE(got.size() == 8);
    CHECK(std::memcmp(got.data(), bytes.data() + 3 * row, 3) == 0);
    CHECK(std::memcmp(got.data() + 4, &scales[static_cast<size_t>(row)], 4) == 0);
  }
}

TEST_CASE("rows of i4 are whole, whether read one by one or several at once") {
  const std::vector<unsigned char> file = {
      0x21, 0x03, 0x54, 0x06, 0x87, 0x09,   // three rows of three elements
      0x01, 0x11, 0x02, 0x12, 0x03, 0x13,   // their scales
      0x04, 0x14, 0x05, 0x15, 0x06, 0x16};  // their offsets
  std::vector<std::byte> bytes(file.size());
  std::memcpy(bytes.data(), file.data(), file.size());
  const auto source = std::make_shared<Bytes>(bytes);
  BundleRows rows(source, "a file", {{"t", 3, 3, DType::kI4, DType::kI4, 0, 6, 12}});
  const unsigned char want[] = {0x21, 0x03, 0x01, 0x11, 0x04, 0x14, 0x54, 0x06, 0x02,
                                0x12, 0x05, 0x15, 0x87, 0x09, 0x03, 0x13, 0x06, 0x16};
  for (int64_t row = 0; row < 3; ++row) {
    const auto got = fetch(rows, row, 6);
    REQUIRE(got.size() == 6);
    CHECK(std::memcmp(got.data(), want + 6 * row, 6) == 0);
  }
  std::vector<std::byte> all(sizeof want);
  std::memcpy(all.data(), want, sizeof want);
  CHECK(rows.first_other(0, 0, 3, all).value() == -1);
  all[13] = std::byte{0x08};
  CHECK(rows.first_other(0, 0, 3, all).value() == 2);
}

/// Keys first, first + 1 ...; their rows one behind the other.
struct Many {
  Many(int64_t first, size_t n, size_t row_bytes) : room(n * row_bytes), found((n + 63) / 64) {
    for (size_t i = 0; i < n; ++i) {
      keys.push_back(first + static_cast<int64_t>(i));
      to.push_back(room.data() + i * row_bytes);
    }
  }
  tiered::FetchRequest request(uint64_t deadline_ns = 0) {
    return {0, keys, to.data(), found.data(), deadline_ns};
  }
  bool has(size_t i) const { return (found[i / 64] >> (i % 64) & 1) != 0; }
  std::vector<std::byte> room;
  std::vector<uint64_t> found;
  std::vector<int64_t> keys;
  std::vector<std::byte*> to;
};

TEST_CASE("rows at hand are read without a fetch, wherever a row lies and whatever it becomes") {
  const std::vector<float> values = wave(6), behind = {7, 8};
  const auto file = file_of(0, values);
  file->cached = 16;
  BundleRows rows(file, "a file", {{"t", 3, 2, DType::kF32, DType::kF32, 0, 0}});
  rows.add_rows(0, bytes_of(behind));
  Many m(-1, 6, 8);
  rows.fetch_ready(m.request());
  CHECK(m.found[0] == 0b010110);  // rows 0 and 1, and the one behind
  CHECK(std::memcmp(m.to[1], values.data(), 16) == 0);
  CHECK(std::memcmp(m.to[4], behind.data(), 8) == 0);
  CHECK(file->reads == 0);
  Many late(0, 3, 8);
  rows.fetch_ready(late.request(monotonic_ns() - 1));
  CHECK(late.found[0] == 0);

  const auto scaled = std::make_shared<Bytes>(std::vector<std::byte>(24, std::byte{3}));
  BundleRows i8(scaled, "a file", {{"t", 2, 4, DType::kI8, DType::kI8, 8, 0}});
  scaled->cached = 12;  // both scales, and the first row
  Many two(0, 2, 8);
  i8.fetch_ready(two.request());
  CHECK(two.found[0] == 1);

  const std::vector<float> wide = wave(600);
  const auto half = file_of(0, wide);
  half->cached = 2048;  // not its last columns
  BundleRows narrow(half, "a file", {{"t", 1, 600, DType::kF32, DType::kF16, 0, 0}});
  Many one(0, 1, 1200);
  narrow.fetch_ready(one.request());
  CHECK(one.found[0] == 0);
  half->cached = 2400;
  narrow.fetch_ready(one.request());
  CHECK(one.found[0] == 1);
  CHECK(std::memcmp(one.to[0], fetch(narrow, 0, 1200).data(), 1200) == 0);
}

TEST_CASE("a disk is asked for 32 rows before one is waited for, and for no more by a caller") {
  const std::vector<float> values = wave(400);
  const auto file = file_of(0, values);
  BundleRows rows(file, "a file", {{"t", 100, 4, DType::kF32, DType::kF32, 0, 0}});
  Many m(0, 100, 16);
  rows.fetch_ready(m.request());
  CHECK(file->asked == 32);
  CHECK(m.found[0] == 0);
  file->asked = 0;
  REQUIRE(rows.fetch(m.request()).ok());
  CHECK(file->asked_before == 32);
  CHECK(file->asked == 100);
  CHECK(file->reads == 100);
  for (size_t i = 0; i < 100; ++i) CHECK(m.has(i));
  CHECK(std::memcmp(m.room.data(), values.data(), 1600) == 0);
  CHECK_FALSE(m.has(100));
}

/// A file that is gone with it.
struct TemporaryFile {
  explicit TemporaryFile(std::span<const std::byte> bytes) {
    fd = ::mkstemp(path.data());
    REQUIRE(fd >= 0);
    REQUIRE(::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    REQUIRE(::fsync(fd) == 0);
  }
  ~TemporaryFile() {
    ::close(fd);
    ::unlink(path.c_str());
  }
  /// Does the kernel say what needs no waiting?
  bool tells() const {
    char byte = 0;
    const iovec to = {&byte, 1};
    return ::preadv2(fd, &to, 1, 0, RWF_NOWAIT) == 1;
  }
  std::string path = (std::filesystem::temp_directory_path() / "dpi_rows_XXXXXX").string();
  int fd = -1;
};

TEST_CASE("of a file the page cache's rows are at hand, and all come right where it lost them") {
  const std::vector<float> values = wave(int64_t{1} << 18);
  const TemporaryFile file(bytes_of(values));
  auto source = ByteSource::open_file(file.path);
  REQUIRE(source.ok());
  char over[8];
  CHECK_FALSE(source.value()->read_cached(source.value()->size() - 4, over, 8));
  BundleRows rows(std::move(source).value(), "a file", {{"t", 4096, 64, DType::kF32, DType::kF32, 0, 0}});
  for (const bool drop : {false, true}) {
    Many m(1000, 256, 256), all(1000, 256, 256);
    if (drop) ::posix_fadvise(file.fd, 0, 0, POSIX_FADV_DONTNEED);
    if (!drop) CHECK(rows.fetch(all.request()).ok());
    rows.fetch_ready(m.request());
    for (size_t i = 0; i < 256; ++i) {
      if (m.has(i)) CHECK(std::memcmp(m.to[i], &values[(1000 + i) * 64], 256) == 0);
      if (!drop) CHECK(m.has(i) == file.tells());
    }
    std::fill(all.found.begin(), all.found.end(), 0);
    REQUIRE(rows.fetch(all.request()).ok());
    CHECK(std::memcmp(all.room.data(), &values[64000], 65536) == 0);
  }
}

TEST_CASE("where a file system cannot tell, nothing is at hand, and reads are as ever") {
  auto source = ByteSource::open_file("/sys/kernel/notes");  // sysfs cannot
  if (!source.ok()) return;
  char first[4] = {}, again[4] = {};
  REQUIRE(source.value()->read(0, first, 4).ok());
  for (int i = 0; i < 2; ++i) CHECK_FALSE(source.value()->read_cached(0, again, 4));
  REQUIRE(source.value()->read(0, again, 4).ok());
  CHECK(std::memcmp(first, again, 4) == 0);
}

TEST_CASE("a fetch whose deadline has passed reads nothing") {
  BundleRows rows(file_of(0, wave(6)), "a file", {{"t", 3, 2, DType::kF32, DType::kF32, 0, 0}});
  const int64_t keys[] = {0, 1, 2};
  std::vector<std::byte> room(24);
  std::byte* to[] = {room.data(), room.data() + 8, room.data() + 16};
  uint64_t found = 0;
  const Status s = rows.fetch({0, keys, to, &found, monotonic_ns() - 1});
  CHECK(s.code() == Code::kTimeout);
  CHECK(s.message() == "the deadline passed while rows of table 't' were read");
}

/// A store with one tiered table of 100 rows of four floats over `file`, in `ref`'s memory.
struct OneTable {
  explicit OneTable(std::shared_ptr<Bytes> file, const TierOptions& options) {
    dpi_backend_options o{};
    o.struct_size = sizeof o;
    o.device_index = -1;
    o.isa = "auto";
    dpi_backend_error err{};
    REQUIRE(api.open(&o, &device, &err) == 0);
    auto rows = std::make_unique<BundleRows>(
        std::move(file), "a file", std::vector<BundleTable>{{"t", 100, 4, DType::kF32, DType::kF32, 0, 0}});
    auto made =
        make_tiered_store(make_resident_store(&api, device, 0), std::move(rows), options, &api, device, {});
    REQUIRE_MESSAGE(made.ok(), made.status().message());
    store = std::move(made).value();
    StoreTable t;
    t.name = "t", t.rows = 100, t.dim = 4, t.tiered = true;
    const auto planned = store->plan({t});
    REQUIRE_MESSAGE(planned.ok(), planned.status().message());
  }
  ~OneTable() {
    store.reset();
    api.close(device);
  }
  OneTable(const OneTable&) = delete;
  OneTable& operator=(const OneTable&) = delete;

  dpi_backend_api api = *backend::ref_backend();
  dpi_backend_device* device = nullptr;
  std::unique_ptr<TableStore> store;
};

TierOptions small_tier() {
  TierOptions o;
  o.host_bytes = 3000;
  return o;
}

TEST_CASE("rows come in order, and all of them") {
  const std::vector<float> values = wave(400);
  OneTable t(file_of(0, values), small_tier());
  const auto rows = bytes_of(values);
  CHECK(t.store->ingest(0, 5, 10, rows.subspan(0, 160)).code() == Code::kInternal);
  CHECK(t.store->ingest(0, 0, 50, rows.subspan(0, 800)).ok());
  CHECK(t.store->ingest(0, 0, 50, rows.subspan(0, 800)).code() == Code::kInternal);
  CHECK(t.store->ingest(0, 50, 51, rows.subspan(0, 816)).code() == Code::kInternal);
  CHECK(t.store->seal().message() == "table 't': 50 of 100 rows came");
  CHECK(t.store->ingest(0, 50, 50, rows.subspan(800)).ok());
  CHECK(t.store->seal().ok());
}

TEST_CASE("a call whose deadline passes while the file does not answer is late, and holds nothing") {
  const std::vector<float> values = wave(400);
  const auto file = file_of(0, values);
  OneTable t(file, small_tier());
  REQUIRE(t.store->ingest(0, 0, 100, bytes_of(values)).ok());
  REQUIRE(t.store->seal().ok());
  auto reader = t.store->open_reader({1, 1});
  REQUIRE(reader.ok());
  int32_t id = 99, place = -1;  // the last row was not preloaded
  StoreRequest::Lookup l;
  l.ids.ids = &id, l.ids.stride = 1, l.ids.rows = 1;
  l.places = &place, l.place_stride = 1;
  file->closed = true;
  const auto late = reader.value()->acquire({{&l, 1}, monotonic_ns() + 5'000'000});
  file->closed = false;
  CHECK(late.status().code() == Code::kTimeout);
  const auto found = reader.value()->acquire({{&l, 1}, 0});
  REQUIRE_MESSAGE(found.ok(), found.status().message());
  const kernels::TableView v = reader.value()->view(0);
  CHECK(std::memcmp(static_cast<const std::byte*>(v.base) + place * v.row_bytes, &values[396], 16) == 0);
  reader.value()->release();
}

}  // namespace
}  // namespace dpi::test::bundle_rows_test
