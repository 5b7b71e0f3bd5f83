// A loader that is killed at any moment: the next one goes on behind the rows that were told as written, and
// what is read in the end is what one load would have written. The program calls itself as the loader.
// Planted, and seen: the record written before its rows, not with them.
#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "store/rocksdb/fixture.hpp"

namespace dpi::test::kill_test {
namespace {

constexpr size_t kBatch = 100;

std::vector<Oracle> tables() {
  return {make_oracle("users", 1, 30000, 256, false), make_oracle("items", 2, 12000, 128, true)};
}

/// Starts the loader; it writes a byte to the pipe for each batch that it was told is written.
pid_t start_loader(const std::string& path, int* told) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    setenv("DPI_TEST_ROCKSDB_DIRECTORY", path.c_str(), 1);
    setenv("DPI_TEST_ROCKSDB_PIPE", std::to_string(ends[1]).c_str(), 1);
    execl("/proc/self/exe", "loader", "-tc=loader", static_cast<char*>(nullptr));
    _exit(9);
  }
  close(ends[1]);
  *told = ends[0];
  return child;
}

/// Bytes of the pipe, until there are `most` of them or the loader has ended.
int64_t bytes_in(int pipe_end, int64_t most) {
  char buffer[512];
  int64_t all = 0;
  while (all < most) {
    const ssize_t n =
        read(pipe_end, buffer, std::min<size_t>(sizeof buffer, static_cast<size_t>(most - all)));
    if (n <= 0) break;
    all += n;
  }
  return all;
}

/// Everything that the directory says of the tables is true; how many batches that are.
int64_t check_what_is_there(const std::string& path) {
  const std::vector<Oracle> all = tables();
  auto source = open_store(path, DPI_STORE_WRITE, all);
  REQUIRE_MESSAGE(source.ok(), source.status().message());
  int64_t batches = 0;
  for (int32_t t = 0; t < 2; ++t) {
    const Oracle& o = all[static_cast<size_t>(t)];
    const auto stat = (*source)->stat(t);
    REQUIRE(stat.ok());
    const auto rows = static_cast<size_t>(stat->rows);
    CHECK(rows % kBatch == 0);
    CHECK(stat->digest == (rows == 0 ? 0 : o.digest(rows)));
    batches += stat->rows / static_cast<int64_t>(kBatch);
    const std::vector<int64_t> keys(o.keys.begin(), o.keys.begin() + static_cast<int64_t>(rows));
    const Fetched f = fetch(**source, t, o, keys);
    REQUIRE_MESSAGE(f.status.ok(), f.status.message());
    CHECK(wrong(f, o, keys) == 0);
  }
  return batches;
}

}  // namespace

TEST_CASE("loader") {
  const char* path = std::getenv("DPI_TEST_ROCKSDB_DIRECTORY");
  if (path == nullptr) return;  // only as a child of the case below
  const int told = std::atoi(std::getenv("DPI_TEST_ROCKSDB_PIPE"));
  const std::vector<Oracle> all = tables();
  auto source = open_store(path, DPI_STORE_WRITE, all);
  REQUIRE_MESSAGE(source.ok(), source.status().message());
  for (int32_t t = 0; t < 2; ++t) {
    const Oracle& o = all[static_cast<size_t>(t)];
    for (;;) {
      const auto stat = (*source)->stat(t);
      REQUIRE(stat.ok());
      const auto rows = static_cast<size_t>(stat->rows);
      if (rows == o.keys.size()) break;
      REQUIRE(write_rows(**source, t, o, std::min(rows + kBatch, o.keys.size()), kBatch).ok());
      const char batch = '.';
      REQUIRE(write(told, &batch, 1) == 1);
    }
    REQUIRE((*source)->complete(t).ok());
  }
}

TEST_CASE("killed at random moments, again and again") {
  if (std::getenv("DPI_TEST_ROCKSDB_DIRECTORY") != nullptr) return;
  const Directory d;
  const std::vector<Oracle> all = tables();
  const auto batches = static_cast<int64_t>((all[0].keys.size() + all[1].keys.size()) / kBatch);
  std::mt19937_64 rng(3);
  int64_t there = 0;
  int midway = 0, status = 0;
  for (int round = 0; round < 40; ++round) {
    int told = -1;
    const pid_t child = start_loader(d.tables, &told);
    // Some batches further, and then at any moment; with all of them written, while files are merged.
    const int64_t first =
        bytes_in(told, std::min<int64_t>(static_cast<int64_t>(rng() % 40), batches - there));
    if (round == 1) {  // its lock is known from another process too
      const Status locked = open_store(d.tables, DPI_STORE_WRITE, all).status();
      CHECK(locked.native_code() == EAGAIN);
      CHECK(locked.message().find(d.tables + "/LOCK: is held by a process that loads tables") !=
            std::string::npos);
    }
    const bool all_written = there + first == batches;
    std::this_thread::sleep_for(
        std::chrono::microseconds(rng() % (all_written || first == 0 ? 60000 : 3000)));
    kill(child, SIGKILL);
    REQUIRE(waitpid(child, &status, 0) == child);
    const int64_t durable = there + first + bytes_in(told, batches);
    close(told);
    there = check_what_is_there(d.tables);
    CHECK(there >= durable);
    midway += there > 0 && there < batches ? 1 : 0;
    if (!WIFSIGNALED(status)) break;
  }
  CHECK(midway >= 5);
  int told = -1;
  const pid_t last = start_loader(d.tables, &told);
  bytes_in(told, batches);
  close(told);
  REQUIRE(waitpid(last, &status, 0) == last);
  CHECK(status == 0);
  auto reader = open_store(d.tables, DPI_STORE_READ, all);
  REQUIRE_MESSAGE(reader.ok(), reader.status().message());
  for (int32_t t = 0; t < 2; ++t) {
    const Oracle& o = all[static_cast<size_t>(t)];
    const Fetched f = fetch(**reader, t, o, o.keys);
    REQUIRE_MESSAGE(f.status.ok(), f.status.message());
    CHECK(wrong(f, o, o.keys) == 0);
  }
}

}  // namespace dpi::test::kill_test
