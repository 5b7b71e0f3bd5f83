// Random reads of 4 KB past the page cache: what a disk gives at most to whoever misses.
//
//   build/release/bin/bench/disk_bench FILE [SECONDS]      for 1, 2, 8, 32 and 64 threads: threads, reads/s
//
// Nothing but those numbers goes to standard output: tests/bench/tiers reads them.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace {

constexpr int64_t kBytes = 4096;

struct File {
  int fd = -1;
  int64_t blocks = 0;
};

bool open_file(const char* path, File* file) {
  struct stat s{};
  file->fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
  if (file->fd < 0 || fstat(file->fd, &s) != 0) return false;
  file->blocks = s.st_size / kBytes;
  return file->blocks > 0;
}

/// Reads until it is told to stop; how many came whole.
int64_t read_blocks(const File& file, uint32_t seed, const std::atomic<bool>& stop) {
  const std::unique_ptr<void, void (*)(void*)> to(std::aligned_alloc(kBytes, kBytes), std::free);
  std::mt19937_64 rng(seed);
  std::uniform_int_distribution<int64_t> block(0, file.blocks - 1);
  int64_t n = 0;
  while (!stop.load(std::memory_order_relaxed)) {
    if (pread(file.fd, to.get(), kBytes, block(rng) * kBytes) != kBytes) return -1;
    ++n;
  }
  return n;
}

/// Reads per second, negative when one failed.
double measure(const File& file, uint32_t n_threads, double seconds) {
  std::atomic<bool> stop{false};
  std::vector<int64_t> done(n_threads);
  std::vector<std::thread> threads;
  const auto begin = std::chrono::steady_clock::now();
  for (uint32_t t = 0; t < n_threads; ++t)
    threads.emplace_back([&, t] { done[t] = read_blocks(file, t * 977 + n_threads, stop); });
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  stop = true;
  for (std::thread& t : threads) t.join();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  int64_t all = 0;
  for (const int64_t n : done) {
    if (n < 0) return -1;
    all += n;
  }
  return static_cast<double>(all) / took.count();
}

}  // namespace

int main(int argc, char** argv) {
  File file;
  if (argc < 2 || !open_file(argv[1], &file)) {
    std::fprintf(stderr, "usage: disk_bench FILE [SECONDS]; the file must be 4 KB long and allow O_DIRECT\n");
    return 1;
  }
  const double seconds = argc > 2 ? std::atof(argv[2]) : 1.0;
  for (const uint32_t threads : {1u, 2u, 8u, 32u, 64u}) {
    const double reads = measure(file, threads, seconds);
    if (reads < 0) {
      std::perror("disk_bench: read");
      return 1;
    }
    std::printf("%u %.0f\n", threads, reads);
  }
  close(file.fd);
  return 0;
}
