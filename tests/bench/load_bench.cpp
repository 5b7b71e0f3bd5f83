// How fast a bundle loads from the page cache, by libraries given side by side: loads in turn, GiB/s of the
// file by the clock and by processor time. Beside them what the machine gives: the file read into memory that
// is there (1 MiB at once), and into memory that is not, XXH3 and the hash of signed bundles over the same
// bytes.
//
//   load_bench [--runs 7] [--threads 1,2] [--key HEX] BUNDLE LIBRARY...
//
// --key: signed loads as well, by this public key. The first library is the one that the others are compared
// with.
#include <dlfcn.h>
#include <dpi/dpi.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "bundle/content_hash.hpp"

namespace {

constexpr size_t kHuge = size_t{2} << 20, kPiece = size_t{1} << 20;

[[noreturn]] void fail(const std::string& text) {
  std::fprintf(stderr, "load_bench: %s\n", text.c_str());
  std::exit(1);
}

/// Of the clock, and of the processors that the process had: on a busy machine only the second says much.
struct Seconds {
  double wall = 0, processor = 0;
};

double clock_seconds(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

Seconds seconds(const std::function<void()>& f) {
  const double wall = clock_seconds(CLOCK_MONOTONIC), own = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
  f();
  return {clock_seconds(CLOCK_MONOTONIC) - wall, clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - own};
}

struct Library {
  std::string path;
  decltype(&dpi_options_create) options_create;
  decltype(&dpi_options_set) options_set;
  decltype(&dpi_options_free) options_free;
  decltype(&dpi_model_load) model_load;
  decltype(&dpi_model_free) model_free;

  explicit Library(const std::string& file) : path(file) {
    void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) fail(dlerror());
    const auto find = [&](auto* to, const char* name) {
      *to = reinterpret_cast<std::remove_pointer_t<decltype(to)>>(dlsym(handle, name));
      if (*to == nullptr) fail(file + " has no " + name);
    };
    find(&options_create, "dpi_options_create");
    find(&options_set, "dpi_options_set");
    find(&options_free, "dpi_options_free");
    find(&model_load, "dpi_model_load");
    find(&model_free, "dpi_model_free");
  }

  Seconds load(const std::string& bundle, int threads, const std::string& key) const {
    dpi_error e = DPI_ERROR_INIT;
    dpi_options* const o = options_create();
    const auto set = [&](const char* name, const std::string& value) {
      if (options_set(o, name, value.c_str(), &e) != DPI_OK) fail(e.message);
    };
    set("device", "cpu");
    set("threads", std::to_string(threads));
    if (!key.empty()) set("require_signature", key);
    dpi_model* m = nullptr;
    const Seconds took = seconds([&] {
      if (model_load(bundle.c_str(), o, &m, &e) != DPI_OK) fail(e.message);
    });
    model_free(m);
    options_free(o);
    return took;
  }
};

/// The file in memory that was written before, and what can be done with it at most.
class Ceilings {
 public:
  explicit Ceilings(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat s{};
    if (fd_ < 0 || fstat(fd_, &s) != 0) fail(path + " cannot be opened");
    bytes_ = static_cast<size_t>(s.st_size);
    const size_t rounded = (bytes_ + kHuge - 1) / kHuge * kHuge;
    memory_ = static_cast<std::byte*>(std::aligned_alloc(kHuge, rounded));
    madvise(memory_, rounded, MADV_HUGEPAGE);
    std::memset(memory_, 1, rounded);
  }
  size_t bytes() const { return bytes_; }

  Seconds read(int threads) const {
    return seconds([&] {
      each(threads, [this](size_t at, size_t n) {
        if (pread(fd_, memory_ + at, n, static_cast<off_t>(at)) != static_cast<ssize_t>(n))
          fail("cannot be read");
      });
    });
  }
  /// Into memory that nobody has touched, as a load has to: the kernel clears its pages first.
  Seconds read_new(int threads) const {
    void* to = nullptr;
    const Seconds took = seconds([&] {
      to = std::aligned_alloc(kHuge, (bytes_ + kHuge - 1) / kHuge * kHuge);
      madvise(to, bytes_, MADV_HUGEPAGE);
      each(threads, [this, to](size_t at, size_t n) {
        if (pread(fd_, static_cast<char*>(to) + at, n, static_cast<off_t>(at)) != static_cast<ssize_t>(n))
          fail("cannot be read");
      });
    });
    std::free(to);
    return took;
  }
  Seconds xxh3() const {
    return seconds([&] { sink_ = XXH3_64bits(memory_, bytes_); });
  }
  Seconds hash(int threads) const {
    return seconds([&] {
      each(threads, [this](size_t at, size_t n) {
        dpi::TreeHash::Leaves leaves;
        leaves.make(at, {memory_ + at, n});
      });
    });
  }

 private:
  /// Pieces in turn: thread t takes t, t + threads ...
  void each(int threads, const std::function<void(size_t at, size_t n)>& piece) const {
    const auto share = [&](size_t first) {
      for (size_t at = first * kPiece; at < bytes_; at += static_cast<size_t>(threads) * kPiece)
        piece(at, std::min(kPiece, bytes_ - at));
    };
    std::vector<std::thread> others;
    for (size_t t = 1; t < static_cast<size_t>(threads); ++t) others.emplace_back(share, t);
    share(0);
    for (std::thread& t : others) t.join();
  }

  int fd_;
  size_t bytes_ = 0;
  std::byte* memory_ = nullptr;
  mutable volatile uint64_t sink_ = 0;
};

struct Case {
  std::string name;
  std::function<Seconds()> run;
  std::vector<double> wall{}, processor{};
};

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

struct Arguments {
  int runs = 7;
  std::vector<int> threads = {1, 2};
  std::string key, bundle;
  std::vector<std::string> libraries;

  Arguments(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      const std::string a = argv[i];
      if (a == "--runs" && i + 1 < argc) {
        runs = std::max(1, std::atoi(argv[++i]));
      } else if (a == "--key" && i + 1 < argc) {
        key = argv[++i];
      } else if (a == "--threads" && i + 1 < argc) {
        threads.clear();
        std::istringstream list(argv[++i]);
        for (std::string n; std::getline(list, n, ',');) threads.push_back(std::max(1, std::atoi(n.c_str())));
      } else {
        bundle.empty() ? bundle = a : libraries.emplace_back(a);
      }
    }
    if (libraries.empty()) fail("[--runs 7] [--threads 1,2] [--key HEX] BUNDLE LIBRARY...");
  }
};

std::vector<Case> cases_of(const Arguments& a, const Ceilings& ceilings,
                           const std::vector<Library>& libraries) {
  std::vector<Case> cases;
  for (const int t : a.threads) {
    const std::string by = " by " + std::to_string(t);
    cases.push_back({"read" + by, [&ceilings, t] { return ceilings.read(t); }});
    cases.push_back({"read into new memory" + by, [&ceilings, t] { return ceilings.read_new(t); }});
    for (const bool is_signed : {false, true}) {
      if (is_signed && a.key.empty()) continue;
      if (is_signed) cases.push_back({"hash" + by, [&ceilings, t] { return ceilings.hash(t); }});
      const std::string key = is_signed ? a.key : "";
      for (const Library& l : libraries)
        cases.push_back({(is_signed ? "signed load" : "load") + by + ", " + l.path,
                         [&a, &l, t, key] { return l.load(a.bundle, t, key); }});
    }
  }
  cases.push_back({"XXH3", [&ceilings] { return ceilings.xxh3(); }});
  return cases;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments a(argc, argv);
  const Ceilings ceilings(a.bundle);
  std::vector<Library> libraries;
  for (const std::string& path : a.libraries) libraries.emplace_back(path);
  std::vector<Case> cases = cases_of(a, ceilings, libraries);
  for (const Case& c : cases) c.run();  // once before: what a library makes at its first load
  for (int run = 0; run < a.runs; ++run) {
    for (Case& c : cases) {
      const Seconds s = c.run();
      c.wall.push_back(s.wall);
      c.processor.push_back(s.processor);
    }
  }
  const double gib = static_cast<double>(ceilings.bytes()) / (1 << 30);
  std::printf("%-60s %28s %28s\n", "GiB/s", "by the clock: median, best", "a processor: median, best");
  for (const Case& c : cases)
    std::printf("%-60s %20.2f %7.2f %20.2f %7.2f\n", c.name.c_str(), gib / median(c.wall),
                gib / *std::min_element(c.wall.begin(), c.wall.end()), gib / median(c.processor),
                gib / *std::min_element(c.processor.begin(), c.processor.end()));
  return 0;
}
