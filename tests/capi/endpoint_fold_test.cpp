// Chains of deltas on file systems that give no file without a name, and on disks that take no copy: a
// process does not run out of descriptors. The program stands between the library and the system. Planted,
// each seen: no bound on a chain; a copy that keeps its name.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <filesystem>
#include <set>

#include "support/endpoint_support.hpp"
#include "support/sanitizer.hpp"

using namespace dpi::test;

namespace {

std::atomic<bool> g_no_unnamed{false}, g_no_copies{false};

}  // namespace

// In place of the C library's, for libdpi too.
extern "C" __attribute__((visibility("default"))) int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const unsigned mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, unsigned) : 0;
  va_end(more);
  if ((flags & O_TMPFILE) == O_TMPFILE && g_no_unnamed.load()) {
    errno = EOPNOTSUPP;
    return -1;
  }
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
extern "C" __attribute__((visibility("default"))) int ftruncate(int fd, off_t length) noexcept {
  if (g_no_copies.load()) {
    errno = ENOSPC;
    return -1;
  }
  return static_cast<int>(syscall(SYS_ftruncate, fd, length));
}

namespace {

namespace fs = std::filesystem;

size_t count_open_files() {
  return static_cast<size_t>(
      std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

EndpointPtr first_version(const char* name) {
  EndpointPtr e = make_endpoint(name, {{"max_contexts", "1"}});
  set(e.get(), "keep_seconds", "0");
  set(e.get(), "warm_up_rows", "0");
  load(e.get(), bundle(0), 1);
  return e;
}

std::string delta(int n) { return versions()->path + "/" + std::to_string(n % kTags) + ".delta"; }

}  // namespace

TEST_CASE("a file system without unnamed files: chains are folded all the same, and leave no name") {
  if (versions() == nullptr) return;
  const EndpointPtr e = first_version("unnamed");
  std::set<fs::path> names;
  for (const auto& entry : fs::directory_iterator(versions()->path)) names.insert(entry.path());
  g_no_unnamed.store(true);
  const size_t before = count_open_files();
  for (int n = 0; n < 130; ++n) {
    load(e.get(), delta(n));
    CHECK(count_open_files() <= before + 64);
  }
  g_no_unnamed.store(false);
  CHECK(ask(e.get(), TagRows(4)).tag == 130 % kTags);
  CHECK(status(e.get()).find("\"failed_loads\":0") != std::string::npos);
  for (const auto& entry : fs::directory_iterator(versions()->path)) CHECK(names.contains(entry.path()));
}

TEST_CASE("a disk that takes no copy: the chain goes on, and ends before the descriptors do") {
  if (versions() == nullptr) return;
  const EndpointPtr e = first_version("full");
  g_no_copies.store(true);
  for (int n = 0; n < 255; ++n) load(e.get(), delta(n));
  Error error;
  CHECK(dpi_endpoint_load(e.get(), delta(255).c_str(), 0, &error) == DPI_E_IO);
  INFO(error.text());
  CHECK(error.text().find("256 deltas are not folded: ") != std::string::npos);
  CHECK(ask(e.get(), TagRows(4)).tag == 255 % kTags);
  g_no_copies.store(false);
  const size_t before = count_open_files();
  load(e.get(), delta(255));
  CHECK(ask(e.get(), TagRows(4)).tag == 256 % kTags);
  CHECK(count_open_files() < before - 200);
}
