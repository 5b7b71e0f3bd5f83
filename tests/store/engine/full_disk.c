/* A disk that is full after so many bytes, for programs that this is preloaded into: writes to files below
 * DPI_TEST_DISK_FOLDER fail with ENOSPC once DPI_TEST_DISK_BYTES have been written to them together. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_llong written;

/* Whether so many bytes more fit; files elsewhere are on another disk. */
static int fits(int fd, size_t n) {
  const char *folder = getenv("DPI_TEST_DISK_FOLDER"), *bytes = getenv("DPI_TEST_DISK_BYTES");
  char name[64], path[4096];
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(name, path, sizeof path - 1);
  if (folder == NULL || bytes == NULL || length < 0 || strncmp(path, folder, strlen(folder)) != 0) return 1;
  path[length] = 0;
  if (strstr(path, "/LOG") != NULL) return 1; /* RocksDB's text of what it did: nobody waits for it */
  if (atomic_fetch_add(&written, (long long)n) + (long long)n <= atoll(bytes)) return 1;
  errno = ENOSPC;
  return 0;
}

__attribute__((visibility("default"))) ssize_t write(int fd, const void* data, size_t n) {
  static ssize_t (*next)(int, const void*, size_t);
  if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, "write");
  return fits(fd, n) ? next(fd, data, n) : -1;
}

__attribute__((visibility("default"))) ssize_t pwrite64(int fd, const void* data, size_t n, off64_t at) {
  static ssize_t (*next)(int, const void*, size_t, off64_t);
  if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, "pwrite64");
  return fits(fd, n) ? next(fd, data, n, at) : -1;
}

__attribute__((visibility("default"))) ssize_t pwrite(int fd, const void* data, size_t n, off_t at) {
  static ssize_t (*next)(int, const void*, size_t, off_t);
  if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, "pwrite");
  return fits(fd, n) ? next(fd, data, n, at) : -1;
}
