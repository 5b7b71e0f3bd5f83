// Row files: written in turns, read back through the host cache, and every kind of damage named.
#include "store/tiered/row_file.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "store/tiered/host_cache.hpp"

namespace dpi::test::row_file_test {
namespace {

using namespace dpi::tiered;

struct File {
  File() { std::filesystem::remove(path); }
  ~File() { std::filesystem::remove(path); }
  const std::string path =
      std::filesystem::temp_directory_path() / ("dpi_row_file_" + std::to_string(getpid()));
  RowFileSpec spec{"users", 1000, 4, 0, 16};

  std::vector<std::byte> rows(int64_t first, int64_t n) const {
    std::vector<std::byte> bytes(static_cast<size_t>(n * spec.stride));
    for (int64_t i = 0; i < n; ++i) {
      const float row[4] = {static_cast<float>(first + i), 1.5f, -2, 0};
      std::memcpy(bytes.data() + i * spec.stride, row, sizeof row);
    }
    return bytes;
  }
  void write(int64_t upto) const {
    auto w = RowFileWriter::open(path, spec);
    REQUIRE_MESSAGE(w.ok(), w.status().message());
    while (w->rows_done() < upto) {
      const int64_t n = std::min<int64_t>(300, upto - w->rows_done());
      REQUIRE(w->append(rows(w->rows_done(), n)).ok());
    }
  }
  void flip(int64_t at) const {
    std::fstream f(path, std::ios::in | std::ios::out | std::ios::binary);
    f.seekg(at);
    const char c = static_cast<char>(f.get() ^ 0x10);
    f.seekp(at);
    f.put(c);
  }
  Status opened() const { return RowFile::open(path, spec).status(); }
};

TEST_CASE("written in turns by several writers, and served by the host cache") {
  File f;
  f.write(300);
  CHECK(f.opened().code() == Code::kBadModel);
  CHECK(f.opened().message() == f.path + ": only 300 of 1000 rows were written");
  {  // bytes behind the last whole block are of a writer that was killed
    std::ofstream torn(f.path, std::ios::app | std::ios::binary);
    torn << "half a block";
  }
  f.write(1000);
  auto file = RowFile::open(f.path, f.spec);
  REQUIRE_MESSAGE(file.ok(), file.status().message());
  CHECK(file->verify().ok());
  std::vector<RowFile> files;
  files.push_back(std::move(*file));
  RowFileSource source(std::move(files));
  std::vector<CacheTable> tables(1);
  tables[0].row = {"users", 1000, 4, kernels::DType::kF32};
  CacheOptions options;
  options.budget = 20000;  // of 16 KB of rows and their directory
  auto cache = HostCache::make(tables, options, &source, {}, {}).value();
  auto reader = cache->make_reader(8).value();
  for (int64_t row = 0; row < 1000; row += 3) {
    const int64_t keys[] = {row, row / 2, -1, 1000};
    int32_t places[4];
    const CacheLookup lookup{0, keys, 4, places};
    REQUIRE(cache->acquire(*reader, {&lookup, 1}, 0).ok());
    const auto* base = static_cast<const float*>(cache->view(0).base);
    CHECK(base[places[0] * 4] == static_cast<float>(row));
    CHECK(base[places[1] * 4] == static_cast<float>(row / 2));
    CHECK(places[2] == cache->default_place(0));
    CHECK(places[3] == cache->default_place(0));
    cache->release(*reader);
  }
}

TEST_CASE("damage is named") {
  File f;
  CHECK(f.opened().code() == Code::kIo);
  CHECK(f.opened().native_code() == ENOENT);
  f.write(1000);
  for (int64_t at = 0; at < 128; ++at) {  // every byte of the header
    f.flip(at);
    CHECK_FALSE(f.opened().ok());
    f.flip(at);
  }
  REQUIRE(f.opened().ok());
  f.flip(128 + 16 * 500);
  CHECK(RowFile::open(f.path, f.spec)->verify().message() == f.path + ": the rows are damaged");
  f.flip(128 + 16 * 500);
  RowFileSpec other = f.spec;
  other.table = "items";
  CHECK(RowFile::open(f.path, other).status().message() ==
        f.path + ": holds another table than 'items', or of another shape");
  other.stride = 6;
  CHECK(RowFile::open(f.path, other).status().code() == Code::kInvalidArgument);
}

TEST_CASE("a file that is cut, before it is opened and while it is open, is a status") {
  File f;
  f.write(1000);
  auto file = RowFile::open(f.path, f.spec);
  REQUIRE(file.ok());
  std::filesystem::resize_file(f.path, 128 + 16 * 10);
  CHECK(f.opened().message() == f.path + ": 288 bytes, but 1000 rows need 16128");
  float row[4];
  CHECK(file->read(9, reinterpret_cast<std::byte*>(row)).ok());
  CHECK(row[0] == 9);
  CHECK(file->read(10, reinterpret_cast<std::byte*>(row)).message() == f.path + ": cut off at byte 288");
  CHECK(file->verify().code() == Code::kBadModel);
  std::filesystem::resize_file(f.path, 50);
  CHECK(f.opened().code() == Code::kBadModel);
}

TEST_CASE("a full disk is a status, and writing goes on when there is room") {
  File f;
  f.write(300);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{128 + 16 * 400, before.rlim_max};
  {
    auto w = RowFileWriter::open(f.path, f.spec);
    REQUIRE(w.ok());
    setrlimit(RLIMIT_FSIZE, &small);
    const Status s = w->append(f.rows(300, 300));
    setrlimit(RLIMIT_FSIZE, &before);
    CHECK(s.code() == Code::kIo);
    CHECK(s.native_code() == EFBIG);
    CHECK(w->rows_done() == 300);
  }
  f.write(1000);
  CHECK(RowFile::open(f.path, f.spec)->verify().ok());
}

}  // namespace
}  // namespace dpi::test::row_file_test
