// Every file of a directory in turn: bytes flipped, cut off, taken away. The answer is a status or exact
// rows, never others, and never the end of the process.
// Planted, each seen: blocks read without their checksums; properties that RocksDB is first to look at.
#include <fstream>

#include "store/rocksdb/fixture.hpp"

namespace dpi::test::damage_test {
namespace {

namespace fs = std::filesystem;

std::vector<Oracle> tables() {
  return {make_oracle("users", 1, 1200, 64, false), make_oracle("items", 2, 700, 32, true)};
}

struct Outcome {
  int64_t refused = 0, failed = 0, exact = 0;
};

/// Opens the directory and asks for everything.
void judge(const std::string& path, const char* reads, const std::string& what, Outcome* outcome) {
  static const std::vector<Oracle> all = tables();
  auto source = open_store(path, DPI_STORE_READ, all, {{"reads", reads}});
  if (!source.ok()) {
    CHECK_MESSAGE(source.status().message().find(path) != std::string::npos, what);
    const Code code = source.status().code();
    CHECK_MESSAGE((code == Code::kBadModel || code == Code::kIo || code == Code::kNotFound ||
                   code == Code::kInvalidArgument || code == Code::kVersion),
                  source.status().message());
    ++outcome->refused;
    return;
  }
  for (int32_t t = 0; t < 2; ++t) {
    const Oracle& o = all[static_cast<size_t>(t)];
    std::vector<int64_t> keys = o.keys;
    for (int64_t k = 5000; k < 5010; ++k) keys.push_back(k);  // absent
    const Fetched f = fetch(**source, t, o, keys);
    if (f.status.ok()) {
      CHECK_MESSAGE(wrong(f, o, keys) == 0, what);
      ++outcome->exact;
    } else {
      CHECK_MESSAGE(f.status.message().find(path) != std::string::npos, f.status.message());
      ++outcome->failed;
    }
  }
}

/// The first and last bytes, where the structures are, and some of those between.
std::vector<int64_t> some_offsets(int64_t size, std::mt19937_64& rng) {
  std::vector<int64_t> at;
  for (int64_t i = 0; i < size; ++i) {
    const bool edge = i < 120 || i >= size - 700;
    if (edge || static_cast<int64_t>(rng() % static_cast<uint64_t>(size)) < 150) at.push_back(i);
  }
  return at;
}

void flip(const std::string& file, int64_t at, unsigned char bits) {
  std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
  f.seekg(at);
  const char c = static_cast<char>(static_cast<unsigned char>(f.get()) ^ bits);
  f.seekp(at);
  f.put(c);
}

std::vector<std::string> files_of(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& e : fs::directory_iterator(path)) names.push_back(e.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

struct Loaded {
  Loaded() {
    load(d.tables, tables(), 250);
    Outcome whole;
    judge(d.tables, "mmap", "undamaged", &whole);
    REQUIRE(whole.exact == 2);
  }
  Directory d;
};

}  // namespace

TEST_CASE("bytes flipped in every file") {
  const Loaded l;
  std::mt19937_64 rng(1);
  Outcome outcome;
  for (const std::string& name : files_of(l.d.tables)) {
    const std::string file = l.d.tables + "/" + name;
    for (const int64_t at : some_offsets(static_cast<int64_t>(fs::file_size(file)), rng)) {
      const auto bits = static_cast<unsigned char>(rng() % 2 != 0 ? 0xff : 1u << rng() % 8);
      flip(file, at, bits);
      judge(l.d.tables, rng() % 2 != 0 ? "mmap" : "pread", name + " at " + std::to_string(at), &outcome);
      flip(file, at, bits);
    }
  }
  MESSAGE("refused " << outcome.refused << ", failed " << outcome.failed << ", exact " << outcome.exact);
  CHECK(outcome.refused > 100);
  CHECK(outcome.failed > 100);
  judge(l.d.tables, "mmap", "mended", &outcome);
}

TEST_CASE("every file cut off anywhere, or gone") {
  const Loaded l;
  std::mt19937_64 rng(2);
  Outcome outcome;
  for (const std::string& name : files_of(l.d.tables)) {
    const std::string file = l.d.tables + "/" + name, kept = l.d.path + "/kept";
    const auto size = static_cast<int64_t>(fs::file_size(file));
    fs::copy_file(file, kept, fs::copy_options::overwrite_existing);
    for (int i = 0; i < 40 && size > 0; ++i) {
      const int64_t to = i == 0   ? 0
                         : i == 1 ? size - 1
                                  : static_cast<int64_t>(rng() % static_cast<uint64_t>(size));
      fs::resize_file(file, static_cast<uintmax_t>(to));
      judge(l.d.tables, i % 2 != 0 ? "mmap" : "pread", name + " cut to " + std::to_string(to), &outcome);
      fs::copy_file(kept, file, fs::copy_options::overwrite_existing);
    }
    fs::remove(file);
    judge(l.d.tables, "mmap", name + " gone", &outcome);
    fs::copy_file(kept, file);
  }
  MESSAGE("refused " << outcome.refused << ", failed " << outcome.failed << ", exact " << outcome.exact);
  CHECK(outcome.refused > 50);
  CHECK(outcome.exact > 2);  // files that are not looked at for reading
}

TEST_CASE("files that are cut and overwritten while they are open, read with pread") {
  const Loaded l;
  const std::vector<Oracle> all = tables();
  auto source = open_store(l.d.tables, DPI_STORE_READ, all, {{"reads", "pread"}, {"cache_bytes", "0"}});
  REQUIRE_MESSAGE(source.ok(), source.status().message());
  int failed = 0;
  for (const std::string& name : files_of(l.d.tables)) {
    if (!name.ends_with(".sst")) continue;
    const std::string file = l.d.tables + "/" + name;
    for (int64_t at = 100; at < static_cast<int64_t>(fs::file_size(file)) - 1500; at += 997)
      flip(file, at, 4);
    for (int32_t t = 0; t < 2; ++t) {
      const Fetched f = fetch(**source, t, all[static_cast<size_t>(t)], all[static_cast<size_t>(t)].keys);
      if (f.status.ok()) CHECK(wrong(f, all[static_cast<size_t>(t)], all[static_cast<size_t>(t)].keys) == 0);
      failed += f.status.code() == Code::kBadModel ? 1 : 0;
    }
    fs::resize_file(file, fs::file_size(file) / 3);
    for (int32_t t = 0; t < 2; ++t) {
      const Fetched f = fetch(**source, t, all[static_cast<size_t>(t)], all[static_cast<size_t>(t)].keys);
      if (f.status.ok()) CHECK(wrong(f, all[static_cast<size_t>(t)], all[static_cast<size_t>(t)].keys) == 0);
    }
  }
  CHECK(failed >= 2);
  for (int32_t t = 0; t < 2; ++t) {
    CHECK(fetch(**source, t, all[static_cast<size_t>(t)], all[static_cast<size_t>(t)].keys).status.code() ==
          Code::kBadModel);
  }
}

TEST_CASE("a loader that finds a damaged directory says so or goes on") {
  const Loaded l;
  std::mt19937_64 rng(4);
  const std::vector<Oracle> all = tables();
  int64_t refused = 0, opened = 0;
  for (const std::string& name : files_of(l.d.tables)) {
    for (int i = 0; i < 6; ++i) {
      const std::string copy = l.d.path + "/copy";
      fs::remove_all(copy);
      fs::copy(l.d.tables, copy);
      const auto size = static_cast<int64_t>(fs::file_size(copy + "/" + name));
      if (size == 0) continue;
      flip(copy + "/" + name, static_cast<int64_t>(rng() % static_cast<uint64_t>(size)), 0xff);
      auto source = open_store(copy, DPI_STORE_WRITE, all);
      ++(source.ok() ? opened : refused);
      if (!source.ok()) CHECK(source.status().message().find(copy) != std::string::npos);
    }
  }
  CHECK(refused > 3);
  CHECK(opened > 3);
}

}  // namespace dpi::test::damage_test
