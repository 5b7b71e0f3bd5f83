// Hot-key lists: what is written is what is read; any byte that is changed and any that is missing is found;
// contents that are well hashed and cannot be (keys out of range, out of order, no keys) are refused by name.
#include <doctest/doctest.h>
#include <unistd.h>
#include <xxhash.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "store/hot_keys/hot_key_layout.hpp"
#include "store/hot_keys/hot_key_writer.hpp"

namespace dpi::test::hot_keys_test {
namespace {

namespace fs = std::filesystem;
using hot_key_layout::Entry;
using hot_key_layout::Head;

struct Folder {
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  std::string file(const char* name) const { return (path / name).string(); }
  fs::path path = fs::temp_directory_path() / ("dpi_hot_" + std::to_string(getpid()));
};

HotTable table(const std::string& name, int64_t rows, uint64_t lookups) {
  HotTable t;
  t.name = name;
  t.rows = rows;
  t.lookups = lookups;
  t.content[0] = std::byte{7};
  return t;
}

using Keys = std::vector<HotKey>;

Status write(const std::string& path, std::vector<HotTable> tables, const std::vector<Keys>& keys) {
  for (size_t t = 0; t < tables.size(); ++t) tables[t].n = static_cast<int64_t>(keys[t].size());
  auto w = HotKeyWriter::create(path, tables);
  if (!w.ok()) return w.status();
  for (const Keys& k : keys) DPI_RETURN_IF_ERROR((*w)->add(k));
  return (*w)->commit();
}

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// With the digest made right when `digest` says so.
Status open_bytes(const Folder& folder, std::string bytes, bool digest) {
  if (digest && bytes.size() >= sizeof(Head)) {
    std::memset(bytes.data() + offsetof(Head, digest), 0, 8);
    const uint64_t d = XXH3_64bits(bytes.data(), bytes.size());
    std::memcpy(bytes.data() + offsetof(Head, digest), &d, 8);
  }
  std::ofstream(folder.file("changed"), std::ios::binary) << bytes;
  return HotKeyFile::open(folder.file("changed")).status();
}

const std::vector<Keys> kTwo = {{{5, 40}, {0, 3}, {9, 3}}, {{1, 2}}};

std::string sound(const Folder& folder) {
  REQUIRE(write(folder.file("list"), {table("user", 10, 50), table("item", 2, 2)}, kTwo).ok());
  return bytes_of(folder.file("list"));
}

TEST_CASE("what is written is what is read") {
  const Folder folder;
  Keys many;
  for (int64_t k = 0; k < 10000; ++k) many.push_back({k, 1});
  REQUIRE(write(folder.file("list"),
                {table("user", 10, 50), table("item", 10000, 10001), table("none", 5, 0)},
                {kTwo[0], many, {}})
              .ok());
  const auto list = HotKeyFile::open(folder.file("list"));
  REQUIRE_MESSAGE(list.ok(), list.status().message());
  REQUIRE((*list)->tables().size() == 3);
  const HotTable& user = (*list)->tables()[0];
  CHECK(user.name == "user");
  CHECK(user.rows == 10);
  CHECK(user.lookups == 50);
  CHECK(user.content[0] == std::byte{7});
  REQUIRE(user.n == 3);
  Keys got(3);
  REQUIRE((*list)->read(0, 0, got).ok());
  CHECK(std::memcmp(got.data(), kTwo[0].data(), 3 * sizeof(HotKey)) == 0);
  got.resize(2);
  REQUIRE((*list)->read(1, 9998, got).ok());
  CHECK(got[1].key == 9999);
  CHECK((*list)->tables()[2].n == 0);
  CHECK(fs::file_size(folder.file("list")) == sizeof(Head) + 3 * sizeof(Entry) + 10003 * sizeof(HotKey));
}

TEST_CASE("every byte that is changed, missing or too many is found") {
  const Folder folder;
  const std::string bytes = sound(folder);
  CHECK(open_bytes(folder, bytes, false).ok());
  for (size_t at = 0; at < bytes.size(); ++at) {
    CAPTURE(at);
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    const Status s = open_bytes(folder, changed, false);
    CHECK((s.code() == Code::kBadModel || s.code() == Code::kUnsupported));
    CHECK(s.message().find("hot-key list '" + folder.file("changed") + "': ") == 0);
    CHECK(open_bytes(folder, bytes.substr(0, at), true).code() == Code::kBadModel);
  }
  CHECK(open_bytes(folder, bytes + "x", true).code() == Code::kBadModel);
}

/// The sound list with 8 bytes at `at` replaced is refused with this text.
void refuses(const Folder& folder, size_t at, uint64_t value, const std::string& text,
             Code code = Code::kBadModel) {
  std::string bytes = sound(folder);
  std::memcpy(bytes.data() + at, &value, sizeof value);
  const Status s = open_bytes(folder, bytes, true);
  CAPTURE(s.message());
  CHECK(s.code() == code);
  CHECK(s.message().find(text) != std::string::npos);
}

TEST_CASE("contents that cannot be are refused by name, whatever their digest") {
  const Folder folder;
  const size_t entry = sizeof(Head), keys = sizeof(Head) + 2 * sizeof(Entry);
  refuses(folder, keys, 10, "table 'user': key 10 is outside of its 10 rows");
  refuses(folder, keys, static_cast<uint64_t>(-1), "table 'user': key -1 is outside of its 10 rows");
  refuses(folder, keys + 24, 41, "table 'user': key 0 is not in its place");
  refuses(folder, keys + 32, 0, "table 'user': key 0 is not in its place");  // twice
  refuses(folder, keys + 8, 51, "table 'user': key 5 has a count of 51");
  refuses(folder, keys + 3 * 16 + 8, 0, "table 'item': key 1 has a count of 0");
  refuses(folder, entry + offsetof(Entry, rows), 2, "table 'user': it states 3 keys of 2 rows");
  refuses(folder, entry + offsetof(Entry, n), uint64_t{1} << 62, "table 'user': it states");
  refuses(folder, entry + offsetof(Entry, n), 2, "table 'item': it states");
  refuses(folder, entry + offsetof(Entry, offset), 0, "table 'user': it states");
  refuses(folder, entry + offsetof(Entry, name_bytes), 201, "is none");
  refuses(folder, offsetof(Head, version), 2 + (uint64_t{2} << 32), "version 2, this release reads 1",
          Code::kUnsupported);
  refuses(folder, offsetof(Head, tables), 60000 + (uint64_t{sound(folder).size()} << 32),
          "states 60000 tables");
}

TEST_CASE("a list without keys, one that is not there, one that is none") {
  const Folder folder;
  REQUIRE(write(folder.file("list"), {table("user", 10, 0)}, {{}}).ok());
  CHECK(HotKeyFile::open(folder.file("list")).status().message() ==
        "hot-key list '" + folder.file("list") + "': it holds no key");
  REQUIRE(write(folder.file("list"), {}, {}).ok());
  CHECK(HotKeyFile::open(folder.file("list")).status().code() == Code::kBadModel);
  CHECK(HotKeyFile::open(folder.file("other")).status().code() == Code::kNotFound);
  CHECK(HotKeyFile::open(folder.path.string()).status().code() == Code::kIo);
  std::ofstream(folder.file("list")) << std::string(100, 'x');
  CHECK(HotKeyFile::open(folder.file("list")).status().message() ==
        "hot-key list '" + folder.file("list") + "': it is no hot-key list");
  REQUIRE(write(folder.file("list"), {table("user", 10, 9), table("user", 10, 9)}, {kTwo[1], kTwo[1]}).ok());
  CHECK(HotKeyFile::open(folder.file("list")).status().message().find("names table 'user' twice") !=
        std::string::npos);
}

TEST_CASE("a list appears whole or not at all") {
  const Folder folder;
  std::ofstream(folder.file("list")) << "before";
  {
    HotTable t = table("user", 10, 9);
    t.n = 2;
    auto w = HotKeyWriter::create(folder.file("list"), {t});
    REQUIRE(w.ok());
    CHECK((*w)->add(kTwo[1]).ok());
    CHECK((*w)->commit().code() == Code::kInternal);
    CHECK((*w)->add(kTwo[0]).code() == Code::kInternal);
  }
  CHECK(bytes_of(folder.file("list")) == "before");
  CHECK(std::distance(fs::directory_iterator(folder.path), fs::directory_iterator()) == 1);
  CHECK(HotKeyWriter::create(folder.file("no/list"), {}).status().code() == Code::kIo);
}

}  // namespace
}  // namespace dpi::test::hot_keys_test
