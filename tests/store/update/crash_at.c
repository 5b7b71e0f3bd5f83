/* A program that dies at a step of its work: at the DPI_TEST_CRASH_AT-th call, counted from 1, that changes a
 * file or sends to a server. Of what that call writes the first half gets there. 0: none; their number goes
 * to the file DPI_TEST_CRASH_COUNT at the end. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_llong steps;

__attribute__((destructor)) static void tell(void) {
  const char* path = getenv("DPI_TEST_CRASH_COUNT");
  FILE* to = path != NULL ? fopen(path, "w") : NULL;
  if (to == NULL) return;
  fprintf(to, "%lld\n", (long long)atomic_load(&steps));
  fclose(to);
}

/* Whether this is the step to die at. */
static int dies(void) {
  const char* at = getenv("DPI_TEST_CRASH_AT");
  return atomic_fetch_add(&steps, 1) + 1 == (at != NULL ? atoll(at) : 0);
}

/* Standard output and error are no work. */
static int counts(int fd) { return fd > 2 && dies(); }

#define NEXT(name)               \
  static __typeof__(name)* next; \
  if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, #name)
#define SHOWN __attribute__((visibility("default")))

SHOWN ssize_t write(int fd, const void* data, size_t n) {
  NEXT(write);
  if (!counts(fd)) return next(fd, data, n);
  ssize_t half = next(fd, data, n / 2);
  raise(SIGKILL);
  return half;
}
SHOWN ssize_t pwrite(int fd, const void* data, size_t n, off_t at) {
  NEXT(pwrite);
  if (!counts(fd)) return next(fd, data, n, at);
  ssize_t half = next(fd, data, n / 2, at);
  raise(SIGKILL);
  return half;
}
SHOWN ssize_t pwrite64(int fd, const void* data, size_t n, off64_t at) { return pwrite(fd, data, n, at); }
SHOWN ssize_t send(int fd, const void* data, size_t n, int flags) {
  NEXT(send);
  if (!dies()) return next(fd, data, n, flags);
  ssize_t half = next(fd, data, n / 2, flags);
  raise(SIGKILL);
  return half;
}
SHOWN ssize_t writev(int fd, const struct iovec* parts, int n) {
  NEXT(writev);
  if (counts(fd)) raise(SIGKILL);
  return next(fd, parts, n);
}
SHOWN int fsync(int fd) {
  NEXT(fsync);
  if (dies()) raise(SIGKILL);
  return next(fd);
}
SHOWN int fdatasync(int fd) {
  NEXT(fdatasync);
  if (dies()) raise(SIGKILL);
  return next(fd);
}
SHOWN int ftruncate(int fd, off_t length) {
  NEXT(ftruncate);
  if (dies()) raise(SIGKILL);
  return next(fd, length);
}
SHOWN int rename(const char* from, const char* to) {
  NEXT(rename);
  if (dies()) raise(SIGKILL);
  return next(from, to);
}
SHOWN int unlink(const char* path) {
  NEXT(unlink);
  if (dies()) raise(SIGKILL);
  return next(path);
}
SHOWN int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) {
  NEXT(linkat);
  if (dies()) raise(SIGKILL);
  return next(from_folder, from, to_folder, to, flags);
}
