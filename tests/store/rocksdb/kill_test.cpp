// A loader that is killed at any moment: the next one goes on behind the rows that were told as written, and
// what is read in the end is what one load would have written. The program calls itself as the loader.
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "store/rocksdb/fixture.hpp"

namespace dpi::test {
namespace {

constexpr size_t kBatch = 250;

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

int64_t bytes_in(int pipe_end) {
  char buffer[512];
  int64_t all = 0;
  for (ssize_t n; (n = read(pipe_end, buffer, sizeof buffer)) > 0;) all += n;
  close(pipe_end);
  return all;
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
  const size_t batches = all[0].keys.size() / kBatch + all[1].keys.size() / kBatch;
  std::mt19937_64 rng(3);
  int killed = 0, midway = 0;
  int64_t durable = 0;
  for (int round = 0; round < 200; ++round) {
    int told = -1;
    const pid_t child = start_loader(d.tables, &told);
    // From its first batch on, mostly: opening takes as long as some batches.
    pollfd first{told, POLLIN, 0};
    if (round % 4 != 0) poll(&first, 1, 20000);
    std::this_thread::sleep_for(std::chrono::microseconds(rng() % (round % 2 != 0 ? 20000 : 200000)));
    if (round == 1) {  // its lock is known from another process too
      const Status locked = open_store(d.tables, DPI_STORE_WRITE, all).status();
      CHECK(locked.native_code() == EAGAIN);
      CHECK(locked.message().find(d.tables + "/LOCK: is held by a process that loads tables") !=
            std::string::npos);
    }
    kill(child, SIGKILL);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    durable += bytes_in(told);
    auto source = open_store(d.tables, DPI_STORE_WRITE, all);
    REQUIRE_MESSAGE(source.ok(), source.status().message());
    int64_t found = 0;
    for (int32_t t = 0; t < 2; ++t) {
      const Oracle& o = all[static_cast<size_t>(t)];
      const auto stat = (*source)->stat(t);
      REQUIRE(stat.ok());
      const auto rows = static_cast<size_t>(stat->rows);
      CHECK(rows % kBatch == 0);
      CHECK(stat->digest == (rows == 0 ? 0 : o.digest(rows)));
      found += stat->rows / static_cast<int64_t>(kBatch);
      // The rows that are counted are there, whole.
      const std::vector<int64_t> keys(o.keys.begin(), o.keys.begin() + static_cast<int64_t>(rows));
      const Fetched f = fetch(**source, t, o, keys);
      REQUIRE_MESSAGE(f.status.ok(), f.status.message());
      CHECK(wrong(f, o, keys) == 0);
    }
    CHECK(found >= durable);
    durable = found;
    killed += WIFSIGNALED(status) ? 1 : 0;
    midway += found > 0 && static_cast<size_t>(found) < batches ? 1 : 0;
    if (!WIFSIGNALED(status)) {
      CHECK(status == 0);
      break;
    }
  }
  CHECK(killed >= 5);
  CHECK(midway >= 3);
  auto reader = open_store(d.tables, DPI_STORE_READ, all);
  REQUIRE_MESSAGE(reader.ok(), reader.status().message());
  for (int32_t t = 0; t < 2; ++t) {
    const Oracle& o = all[static_cast<size_t>(t)];
    const Fetched f = fetch(**reader, t, o, o.keys);
    REQUIRE_MESSAGE(f.status.ok(), f.status.message());
    CHECK(wrong(f, o, o.keys) == 0);
  }
}

}  // namespace dpi::test
