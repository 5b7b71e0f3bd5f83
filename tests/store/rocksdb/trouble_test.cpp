// What goes wrong is told by its name: no directory, a lock, a full disk, another table, no right to write.
// Planted, each seen: writes without sync; RocksDB's threads for readers; the deadline not looked at; tables
// that are incomplete, of another shape or with a key twice let through; going on after a failed write.
#include <rocksdb/db.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <map>
#include <thread>

#include "base/clock.hpp"
#include "store/rocksdb/fixture.hpp"

namespace dpi::test {
extern std::atomic<int64_t> g_syncs;  // sync_count.cpp
}

namespace dpi::test::trouble_test {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

Status opened(const std::string& path, dpi_store_mode mode, const std::vector<Oracle>& tables,
              const Settings& settings = {}) {
  return open_store(path, mode, tables, settings).status();
}

int64_t threads_of_this_process() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("Threads:")) return std::stoll(line.substr(8));
  }
  return -1;
}

bool contains(const Status& s, const std::string& part) {
  INFO(s.message());
  const bool found = s.message().find(part) != std::string::npos;
  CHECK(found);
  return found;
}

const Oracle kUsers = make_oracle("users", 1, 2000, 64, false);

}  // namespace

// Runs first: later cases leave RocksDB's threads of loading behind.
TEST_CASE("1: reading starts no thread and writes nothing, in a directory that it may not write to") {
  const Directory d;
  if (std::getenv("DPI_TEST_ROCKSDB_LOAD") != nullptr) {  // the program calls itself
    load(std::getenv("DPI_TEST_ROCKSDB_LOAD"), {kUsers});
    return;
  }
  const pid_t child = fork();
  if (child == 0) {
    setenv("DPI_TEST_ROCKSDB_LOAD", d.tables.c_str(), 1);
    execl("/proc/self/exe", "loader", "-tc=1:*", static_cast<char*>(nullptr));
    _exit(9);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  const auto listing = [&] {
    std::set<std::string> names;
    for (const auto& e : std::filesystem::directory_iterator(d.tables)) names.insert(e.path().string());
    return names;
  };
  const std::set<std::string> before = listing();
  for (const std::string& name : before) chmod(name.c_str(), 0444);
  chmod(d.path.c_str(), 0555);
  chmod(d.tables.c_str(), 0555);
  const bool root = geteuid() == 0;
  if (root) REQUIRE(seteuid(65534) == 0);
  const int64_t threads = threads_of_this_process();
  for (int i = 0; i < 2; ++i) {
    auto a = open_store(d.tables, DPI_STORE_READ, {kUsers});
    auto b = open_store(d.tables, DPI_STORE_READ, {kUsers});  // side by side
    CHECK_MESSAGE(a.ok(), a.status().message());
    CHECK_MESSAGE(b.ok(), b.status().message());
    if (a.ok()) CHECK(wrong(fetch(**a, 0, kUsers, kUsers.keys), kUsers, kUsers.keys) == 0);
    CHECK(threads_of_this_process() == threads);
  }
  const Status writer = opened(d.tables, DPI_STORE_WRITE, {kUsers});
  if (root) REQUIRE(seteuid(0) == 0);
  chmod(d.path.c_str(), 0755);
  chmod(d.tables.c_str(), 0755);
  CHECK(writer.code() == Code::kIo);
  contains(writer, d.tables);
  contains(writer, "Permission denied");
  CHECK(listing() == before);
}

TEST_CASE("no directory, an empty one, one of something else, a file") {
  const Directory d;
  Status s = opened(d.tables, DPI_STORE_READ, {kUsers});
  CHECK(s.code() == Code::kNotFound);
  CHECK(s.native_code() == ENOENT);
  CHECK(s.message() == "store 'rocksdb': " + d.tables + ": holds no tables; `dpi store load` makes them");
  CHECK(opened(d.path, DPI_STORE_READ, {kUsers}).code() == Code::kNotFound);
  std::ofstream(d.path + "/file") << "x";
  CHECK(opened(d.path + "/file", DPI_STORE_READ, {kUsers}).code() == Code::kNotFound);
  CHECK(opened(d.path + "/file", DPI_STORE_WRITE, {kUsers}).code() == Code::kIo);
  CHECK(opened(d.path + "/a/b/c", DPI_STORE_WRITE, {kUsers}).code() == Code::kIo);
}

TEST_CASE("a RocksDB directory of something else is left as it is") {
  const Directory d;
  rocksdb::Options options;
  options.create_if_missing = true;
  rocksdb::DB* db = nullptr;
  REQUIRE(rocksdb::DB::Open(options, d.tables, &db).ok());
  REQUIRE(db->Put({}, "somebody's", "key").ok());
  REQUIRE(db->Flush({}).ok());
  delete db;
  std::map<std::string, uintmax_t> before, after;
  for (const auto& e : std::filesystem::directory_iterator(d.tables)) before[e.path()] = e.file_size();
  const Status s = opened(d.tables, DPI_STORE_WRITE, {kUsers});
  CHECK(s.code() == Code::kInvalidArgument);
  contains(s, d.tables + ": is a RocksDB directory of something else; name another one");
  CHECK(opened(d.tables, DPI_STORE_READ, {kUsers}).code() == Code::kNotFound);
  for (const auto& e : std::filesystem::directory_iterator(d.tables)) after[e.path()] = e.file_size();
  CHECK(before == after);
}

TEST_CASE("settings that it does not know, or cannot be") {
  const Directory d;
  load(d.tables, {kUsers});
  CHECK(opened(d.tables, DPI_STORE_READ, {kUsers}, {{"cache_bytes", "0"}, {"reads", "pread"}}).ok());
  for (const Settings& bad : std::vector<Settings>{{{"adress", "x"}},
                                                   {{"cache_bytes", "1 GB"}},
                                                   {{"cache_bytes", "-1"}},
                                                   {{"cache_bytes", ""}},
                                                   {{"reads", "fast"}}}) {
    const Status s = opened(d.tables, DPI_STORE_READ, {kUsers}, bad);
    CHECK(s.code() == Code::kInvalidArgument);
    contains(s, bad[0].first);
  }
  const Status s = opened("", DPI_STORE_READ, {kUsers});
  CHECK(s.code() == Code::kInvalidArgument);
  contains(s, "setting path is needed");
}

TEST_CASE("a table that is missing, incomplete, of another shape or content") {
  const Directory d;
  {
    auto source = open_store(d.tables, DPI_STORE_WRITE, {kUsers});
    REQUIRE_MESSAGE(source.ok(), source.status().message());
    REQUIRE(write_rows(**source, 0, kUsers, 700, 300).ok());
    contains((*source)->complete(0), "only 700 of 2000 rows were written");
  }
  Status s = opened(d.tables, DPI_STORE_READ, {kUsers});
  CHECK(s.code() == Code::kBadModel);
  contains(s, d.tables + ": table 'users': only 700 of 2000 rows were written; `dpi store load` goes on");
  load(d.tables, {kUsers});
  CHECK(opened(d.tables, DPI_STORE_READ, {kUsers}).ok());
  Oracle other = kUsers;
  other.spec.name = "user";
  CHECK(opened(d.tables, DPI_STORE_READ, {kUsers, other}).code() == Code::kNotFound);
  contains(opened(d.tables, DPI_STORE_READ, {kUsers, other}), "table 'user' of content");
  other = kUsers;
  other.spec.content = content_of(77);
  CHECK(opened(d.tables, DPI_STORE_READ, {other}).code() == Code::kNotFound);
  for (int i = 0; i < 5; ++i) {
    other = kUsers;
    if (i == 0) other.spec.rows += 1;
    if (i == 1) other.spec.row_bytes = 32;
    if (i == 2) other.spec.dim = 16;
    if (i == 3) other.spec.dtype = 0;
    if (i == 4) other.spec.keyed = true;
    for (const dpi_store_mode mode : {DPI_STORE_READ, DPI_STORE_WRITE}) {
      s = opened(d.tables, mode, {other});
      CHECK(s.code() == Code::kBadModel);
      contains(s, "table 'users': holds 2000 rows of 64 bytes (dim 64, type 3), expected");
    }
  }
  other = kUsers;
  other.spec.content = "abc";
  CHECK(opened(d.tables, DPI_STORE_READ, {other}).code() == Code::kInvalidArgument);
}

TEST_CASE("what cannot be written: too many rows, rows of other numbers, a key twice, by a reader") {
  const Directory d;
  const Oracle keyed = make_oracle("items", 2, 100, 16, true);
  auto source = open_store(d.tables, DPI_STORE_WRITE, {kUsers, keyed});
  REQUIRE_MESSAGE(source.ok(), source.status().message());
  const std::vector<int64_t> gap{0, 2};
  contains((*source)->write(0, gap, kUsers.rows(0, 2), 1), "row 1 has the key 2");
  CHECK((*source)->stat(0)->rows == 0);
  REQUIRE(write_rows(**source, 1, keyed, 99, 50).ok());
  const std::vector<int64_t> twice{keyed.keys[98]};
  REQUIRE((*source)->write(1, twice, keyed.rows(98, 1), 5).ok());
  const Status s = (*source)->complete(1);
  CHECK(s.code() == Code::kInvalidArgument);
  contains(s, "99 rows, expected 100");
  contains(s, "a key was written twice");
  contains((*source)->write(1, twice, keyed.rows(98, 1), 5), "1 rows more than its 100 after 100");
  source->reset();
  load(d.tables, {kUsers});
  auto reader = open_store(d.tables, DPI_STORE_READ, {kUsers});
  REQUIRE_MESSAGE(reader.ok(), reader.status().message());
  contains((*reader)->write(0, {}, {}, 0), "open for reading");
  contains((*reader)->complete(0), "open for reading");
  contains((*reader)->drop(0), "open for reading");
}

TEST_CASE("who loads is told of another who does; who reads is not disturbed") {
  const Directory d;
  const Oracle items = make_oracle("items", 2, 4000, 64, true);
  load(d.tables, {kUsers});
  auto writer = open_store(d.tables, DPI_STORE_WRITE, {items});
  REQUIRE_MESSAGE(writer.ok(), writer.status().message());
  const Status s = opened(d.tables, DPI_STORE_WRITE, {kUsers});
  CHECK(s.code() == Code::kIo);
  CHECK(s.native_code() == EAGAIN);
  contains(s, d.tables + "/LOCK: is held by a process that loads tables");
  auto reader = open_store(d.tables, DPI_STORE_READ, {kUsers});
  REQUIRE_MESSAGE(reader.ok(), reader.status().message());
  for (size_t upto = 1000; upto <= 4000; upto += 1000) {
    REQUIRE(write_rows(**writer, 0, items, upto, 500).ok());
    CHECK(wrong(fetch(**reader, 0, kUsers, kUsers.keys), kUsers, kUsers.keys) == 0);
    CHECK(opened(d.tables, DPI_STORE_READ, {kUsers}).ok());
  }
  REQUIRE((*writer)->complete(0).ok());
  CHECK(wrong(fetch(**reader, 0, kUsers, kUsers.keys), kUsers, kUsers.keys) == 0);
  auto late = open_store(d.tables, DPI_STORE_READ, {items});
  REQUIRE_MESSAGE(late.ok(), late.status().message());
  CHECK(wrong(fetch(**late, 0, items, items.keys), items, items.keys) == 0);
}

TEST_CASE("readers that come while a loader writes, merges and completes find whole tables") {
  const Directory d;
  const Oracle items = make_oracle("items", 2, 60000, 64, true);
  load(d.tables, {kUsers});
  Status loaded;
  std::atomic<bool> done{false};
  std::thread loader([&] {
    auto writer = open_store(d.tables, DPI_STORE_WRITE, {items});
    loaded = writer.ok() ? write_rows(**writer, 0, items, items.keys.size(), 3000) : writer.status();
    if (loaded.ok()) loaded = (*writer)->complete(0);
    done = true;
  });
  int opens = 0;
  for (bool last = false; !last; ++opens) {
    last = done;
    auto reader = open_store(d.tables, DPI_STORE_READ, {kUsers});
    CHECK_MESSAGE(reader.ok(), reader.status().message());
    if (reader.ok()) CHECK(wrong(fetch(**reader, 0, kUsers, kUsers.keys), kUsers, kUsers.keys) == 0);
    auto other = open_store(d.tables, DPI_STORE_READ, {items});  // not there, then incomplete, then whole
    if (other.ok()) CHECK(wrong(fetch(**other, 0, items, items.keys), items, items.keys) == 0);
    if (!other.ok()) CHECK_MESSAGE(contains(other.status(), "`dpi store load`"), opens);
    CHECK(other.ok() >= last);
  }
  loader.join();
  CHECK_MESSAGE(loaded.ok(), loaded.message());
  CHECK(opens > 1);
}

TEST_CASE("what was told as written was given to the disk before") {
  const Directory d;
  auto source = open_store(d.tables, DPI_STORE_WRITE, {kUsers});
  REQUIRE_MESSAGE(source.ok(), source.status().message());
  for (size_t upto = 100; upto <= 2000; upto += 100) {
    const int64_t before = g_syncs;
    REQUIRE(write_rows(**source, 0, kUsers, upto, 100).ok());
    CHECK(g_syncs > before);
  }
  const int64_t before = g_syncs;
  REQUIRE((*source)->complete(0).ok());
  CHECK(g_syncs >= before + 2);  // rows and the record of them
}

TEST_CASE("a full disk: not written, told so, and gone on with when there is room") {
  const Directory d;
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  {
    auto source = open_store(d.tables, DPI_STORE_WRITE, {kUsers});
    REQUIRE_MESSAGE(source.ok(), source.status().message());
    REQUIRE(write_rows(**source, 0, kUsers, 500, 500).ok());
    const rlimit small{60000, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    const Status s = write_rows(**source, 0, kUsers, 2000, 500);
    const Status next = write_rows(**source, 0, kUsers, 2000, 500);
    setrlimit(RLIMIT_FSIZE, &before);
    CHECK(s.code() == Code::kIo);
    contains(s, d.tables + ": table 'users': IO error: ");
    contains(s, "File too large");
    CHECK((*source)->stat(0)->rows == 500);
    CHECK(next.code() == Code::kClosed);
    contains(next, "open the store again to go on");
  }
  auto again = open_store(d.tables, DPI_STORE_WRITE, {kUsers});
  REQUIRE_MESSAGE(again.ok(), again.status().message());
  CHECK((*again)->stat(0)->rows == 500);
  CHECK((*again)->stat(0)->digest == kUsers.digest(500));
  again->reset();
  load(d.tables, {kUsers});
  auto reader = open_store(d.tables, DPI_STORE_READ, {kUsers});
  REQUIRE_MESSAGE(reader.ok(), reader.status().message());
  CHECK(wrong(fetch(**reader, 0, kUsers, kUsers.keys), kUsers, kUsers.keys) == 0);
}

TEST_CASE("no memory is a status") {
  const Directory d;
  const Oracle large = make_oracle("large", 3, 20000, 1024, false);
  load(d.tables, {large}, 5000);
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  std::ifstream pages("/proc/self/statm");
  int64_t used = 0;
  pages >> used;
  const rlimit small{static_cast<rlim_t>(used * 4096 + (4 << 20)), before.rlim_max};
  setrlimit(RLIMIT_AS, &small);
  const Status s = opened(d.tables, DPI_STORE_READ, {large});  // 20 MB to be mapped
  setrlimit(RLIMIT_AS, &before);
  CHECK(s.code() == Code::kOutOfMemory);
  contains(s, d.tables);
  CHECK(opened(d.tables, DPI_STORE_READ, {large}).ok());
}

TEST_CASE("a deadline that has passed is told, one to come is kept") {
  const Directory d;
  load(d.tables, {kUsers});
  auto source = open_store(d.tables, DPI_STORE_READ, {kUsers});
  REQUIRE(source.ok());
  const Status s = fetch(**source, 0, kUsers, kUsers.keys, 1).status;
  CHECK(s.code() == Code::kTimeout);
  contains(s, d.tables + ": table 'users': ");
  contains(s, "the deadline has passed");
  const Fetched f = fetch(**source, 0, kUsers, kUsers.keys, monotonic_ns() + 60'000'000'000u);
  REQUIRE_MESSAGE(f.status.ok(), f.status.message());
  CHECK(wrong(f, kUsers, kUsers.keys) == 0);
}

}  // namespace dpi::test::trouble_test
