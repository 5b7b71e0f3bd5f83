// A bundle opens, or fails with a status, whatever the process may not do: no signal, no exit. Each case runs
// in a child of its own.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <new>

#include "bundle/bundle_bytes.hpp"

namespace dpi::test::limits_test {
namespace {

constexpr int kGood = 0, kRefused = 1, kNoMemory = 2, kOther = 3;

int read_all_of(const Result<std::unique_ptr<Bundle>>& bundle) {
  if (!bundle.ok()) {
    const Code code = bundle.status().code();
    return code == Code::kOutOfMemory ? kNoMemory : code == Code::kIo ? kRefused : kOther;
  }
  return (*bundle)->verify_all({}).ok() ? kGood : kOther;
}

/// The child's exit status, or minus the signal that ended it.
int in_child(int resource, rlim_t limit, const std::function<int()>& work) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const rlimit r = {limit, limit};
    int status = kOther;
    if (::setrlimit(static_cast<__rlimit_resource_t>(resource), &r) == 0) {
      try {
        status = work();
      } catch (const std::bad_alloc&) {
        status = kNoMemory;  // a block of verify_all
      }
    }
    ::_exit(status);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST_CASE("no file may be written") {
  const Bytes bytes = read_file(small_path());
  CHECK(in_child(RLIMIT_FSIZE, 0, [] { return read_all_of(Bundle::open(small_path())); }) == kGood);
  CHECK(in_child(RLIMIT_FSIZE, 0, [&] { return read_all_of(open_bytes(bytes)); }) == kGood);
}

// A sanitizer maps far more than the program and opens files itself.
#if !defined(DPI_SANITIZED)
TEST_CASE("no file may be opened") {
  const Bytes bytes = read_file(small_path());
  CHECK(in_child(RLIMIT_NOFILE, 0, [] { return read_all_of(Bundle::open(small_path())); }) == kRefused);
  CHECK(in_child(RLIMIT_NOFILE, 0, [&] { return read_all_of(open_bytes(bytes)); }) == kGood);
}

uint64_t address_space() {
  std::ifstream in("/proc/self/statm");
  uint64_t pages = 0;
  in >> pages;
  return pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

TEST_CASE("little memory") {
  Bytes bytes = read_file(small_path());
  int short_of_memory = 0;
  for (uint64_t more = 0; more <= (uint64_t{64} << 20); more = more == 0 ? 4096 : 2 * more) {
    const auto work = [] {
      return read_all_of(Bundle::open(source_dir() + "/weights/demo/adult_widedeep.h5"));
    };
    const int status = in_child(RLIMIT_AS, address_space() + more, work);
    CHECK_MESSAGE((status == kGood || status == kNoMemory), more, ": ", status);
    short_of_memory += status == kNoMemory ? 1 : 0;
    const int in_memory =
        in_child(RLIMIT_AS, address_space() + more, [&] { return read_all_of(open_bytes(bytes)); });
    CHECK_MESSAGE((in_memory == kGood || in_memory == kNoMemory), more, ": ", in_memory);
  }
  CHECK(short_of_memory > 0);
}
#endif

}  // namespace
}  // namespace dpi::test::limits_test
