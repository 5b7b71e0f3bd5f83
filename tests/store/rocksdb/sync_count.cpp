// The program's own fdatasync and fsync, which RocksDB calls in place of libc's: counted, then carried out.
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace dpi::test {
std::atomic<int64_t> g_syncs{0};
}

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int fdatasync(int fd) {
  ++dpi::test::g_syncs;
  return static_cast<int>(syscall(SYS_fdatasync, fd));
}

EXPORT int fsync(int fd) {
  ++dpi::test::g_syncs;
  return static_cast<int>(syscall(SYS_fsync, fd));
}
