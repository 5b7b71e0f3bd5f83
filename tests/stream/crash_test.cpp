// A subscription whose process dies between any two of its steps, and half way through a write; the next one,
// over the same folder and from the offset that was committed, leaves what an undisturbed one leaves: each
// delta once, byte by byte, and every offset committed.
//
// The library's calls that change files are the program's own here, which counts them; so is the commit. The
// child that dies is a fork, whose endpoint serves the newest file (ServerFollower).
// Planted, seen: runtime/stream_own_name (tests/mutants).
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdarg>

#include "stream/fake_stream.hpp"
#include "stream/stream_support.hpp"
#include "support/sanitizer.hpp"

namespace {

/// Shared with the child: what outlives it.
struct Shared {
  int steps = 0;        // so far
  int last = 0;         // the step to die at, 0 = none
  int64_t stored = -1;  // the offset that is committed
};
Shared* g_shared = nullptr;

/// Whether this is the step to die at.
bool is_last() {
  return g_shared != nullptr && __atomic_add_fetch(&g_shared->steps, 1, __ATOMIC_SEQ_CST) == g_shared->last;
}
void count_step() {
  if (is_last()) _exit(9);
}

}  // namespace

#define DPI_SHOWN extern "C" __attribute__((visibility("default")))

DPI_SHOWN ssize_t write(int fd, const void* data, size_t n) {
  if (fd <= 2) return syscall(SYS_write, fd, data, n);
  const bool dies = is_last();
  const ssize_t done = syscall(SYS_write, fd, data, dies ? n / 2 : n);
  if (dies) _exit(9);
  return done;
}
DPI_SHOWN int fsync(int fd) {
  count_step();
  return static_cast<int>(syscall(SYS_fsync, fd));
}
DPI_SHOWN int rename(const char* from, const char* to) noexcept {
  count_step();
  return static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
DPI_SHOWN int unlink(const char* path) noexcept {
  count_step();
  return static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}
DPI_SHOWN int futimens(int fd, const timespec times[2]) noexcept {
  count_step();
  return static_cast<int>(syscall(SYS_utimensat, fd, nullptr, times, 0));
}

namespace dpi::test {
namespace {

constexpr int kDeltas = 3;

/// The fake stream, whose commits the parent sees.
const dpi_stream_api& watched_api() {
  static const dpi_stream_api kApi = [] {
    dpi_stream_api api = fake_api();
    api.commit = [](dpi_stream_handle* h, int64_t offset) {
      count_step();
      fake_api().commit(h, offset);
      g_shared->stored = offset;
      count_step();
    };
    return api;
  }();
  return kApi;
}

/// In a child: takes all that the stream has, then ends well.
[[noreturn]] void take_all(const WorkFolder& folder) {
  FakeLog log;
  log.stored = g_shared->stored;
  for (int n = 1; n <= kDeltas; ++n) log.send(delta_bytes(n));
  fake_logs()["deltas"] = &log;
  Server server;
  server.folder = folder.path;
  ServerFollower(server).look();  // what a new process serves first
  const SubscriptionPtr s = subscribe(watched_api(), server, "fake://here/deltas");
  const bool all = within(60, [&] { return log.committed() == kDeltas && server.number == 10 + kDeltas; });
  _exit(all ? 0 : 1);
}

/// The exit status of a child that dies at a step, or never.
int run_child(const WorkFolder& folder, int last) {
  g_shared->steps = 0;
  g_shared->last = last;
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) take_all(folder);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

void check_folder(const WorkFolder& folder) {
  std::set<std::string> expected{"v10.h5"};
  for (int n = 1; n <= kDeltas; ++n) {
    const std::string name = "v" + std::to_string(10 + n) + ".delta";
    expected.insert(name);
    CHECK(bytes_of(folder.file(name)) == delta_bytes(n));
  }
  CHECK(folder.names() == expected);
  CHECK_FALSE(std::filesystem::exists(folder.file(".stream.part")));
  CHECK(g_shared->stored == kDeltas);
}

}  // namespace

TEST_CASE("a process that dies at any step of a subscription: the next one comes to the same folder") {
  if (chain() == nullptr) return;
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  int died = 0;
  for (int last = 1, status = 9; status == 9; ++last) {
    CAPTURE(last);
    const WorkFolder folder;
    publish(folder, "0", 10);
    g_shared = new (memory) Shared;
    status = run_child(folder, last);
    CHECK((status == 9 || status == 0));
    if (status == 9) {
      ++died;
      CHECK(run_child(folder, 0) == 0);
    }
    check_folder(folder);
    g_shared = nullptr;
  }
  MESSAGE("died at ", died, " steps");
  CHECK(died > 6 * kDeltas);
  munmap(memory, sizeof(Shared));
}

}  // namespace dpi::test
