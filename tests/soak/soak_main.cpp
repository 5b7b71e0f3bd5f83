// Random loads, predictions, swaps, refusals and frees on many threads: every score is that of the first load
// to the bit, every refusal has its reason, and memory stays flat.
//
//   soak [--minutes M | --actions N] [--threads T] [--seed S] [--devices a,b] [--plant leak|score]
//
// --actions: of each thread, for a run of the same work anywhere. --devices: cpu,ref, or cuda_emu. --plant: a
// fault that the soak has to find (its own test). Exit status 0, 1 with what was wrong, or 2 where there is
// nothing to run; an outcome that is not as promised aborts.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "soak/actions.hpp"
#include "support/memory_watch.hpp"
#include "support/source_dir.hpp"

// What was freed is kept for a while, so that its use is seen: 16 MiB of it, or the resident set says
// nothing.
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options();
extern "C" const char* __asan_default_options() { return "quarantine_size_mb=16"; }

namespace dpi::soak {
namespace {

struct Arguments {
  double minutes = 0;
  uint64_t actions = 100;
  unsigned threads = 16, seed = 1;
  std::vector<std::string> devices{"cpu", "ref"};
  std::string plant;
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) out.push_back(part);
  return out;
}

bool read(int argc, char** argv, Arguments* a) {
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
    if (value.empty()) return false;
    if (name == "--minutes") {
      a->minutes = std::atof(value.c_str());
    } else if (name == "--actions") {
      a->actions = std::strtoull(value.c_str(), nullptr, 10);
    } else if (name == "--threads") {
      a->threads = static_cast<unsigned>(std::atoi(value.c_str()));
    } else if (name == "--seed") {
      a->seed = static_cast<unsigned>(std::atoi(value.c_str()));
    } else if (name == "--devices") {
      a->devices = split(value);
    } else if (name == "--plant" && (value == "leak" || value == "score")) {
      a->plant = value;
    } else {
      return false;
    }
  }
  return a->threads > 0 && (a->minutes > 0 || a->actions > 0);
}

std::deque<Subject> make_subjects(const Arguments& a) {
  std::deque<Subject> out;
  for (const std::string& device : usable_devices(a.devices)) {
    for (const auto& [bundle, csv] : {std::pair{"adult_widedeep.h5", "adult_test.csv"},
                                      {"bank_dcnv2.h5", "bank_test.csv"},
                                      {"msweb_deepfm.h5", "msweb_test.csv"},
                                      {"msweb_can.h5", "msweb_test.csv"}}) {
      const std::string folder = test::source_dir() + "/weights/demo/";
      out.emplace_back(folder + bundle, folder + csv, device);
    }
  }
  return out;
}

using Clock = std::chrono::steady_clock;

class Soak {
 public:
  explicit Soak(const Arguments& a)
      : a_(a),
        subjects_(make_subjects(a)),
        leaked_(a.threads),
        step_(a.minutes > 0 ? 0 : std::max<uint64_t>(1, a.actions * a.threads / 300)) {}

  int run() {
    if (subjects_.empty()) {
      std::fprintf(stderr, "soak: no device is left\n");
      return 2;
    }
    if (a_.plant == "score") subjects_[0].plant_score();
    const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double, std::ratio<60>>(a_.minutes));
    std::vector<std::thread> threads;
    std::vector<Done> done(a_.threads);
    for (unsigned t = 0; t < a_.threads; ++t) {
      threads.emplace_back(
          [this, t, end, own = &done[t]] { work(a_.seed * 1000 + t, end, own, &leaked_[t]); });
    }
    if (a_.minutes > 0) watch_until_done();
    for (std::thread& t : threads) t.join();
    Done all;
    for (const Done& d : done) all.add(d);
    return report(all);
  }

 private:
  void work(unsigned seed, Clock::time_point end, Done* done, std::deque<std::string>* leaked) {
    Random random(seed + 1);
    while (a_.minutes > 0 ? Clock::now() < end : done->actions < a_.actions) {
      act(subjects_, &random, done);
      if (a_.plant == "leak") leaked->emplace_back(size_t{256} << 10, 'x');
      const uint64_t acted = acted_.fetch_add(1, std::memory_order_relaxed) + 1;
      if (step_ != 0 && acted % step_ == 0) sample();
    }
    finished_.fetch_add(1);
  }

  /// With --actions by the thread that ends a step, so that the line's x is work and the number of samples is
  /// the same on every machine.
  void sample() {
    const std::lock_guard guard(watching_);
    watch_.sample();
  }

  void watch_until_done() {
    while (finished_.load() < a_.threads) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      sample();
    }
  }

  bool judges_memory() const {
    return std::none_of(subjects_.begin(), subjects_.end(),
                        [](const Subject& s) { return s.device() == "cuda_emu"; });
  }

  int report(const Done& d) const {
    std::printf(
        "soak: %llu actions on %u threads and %zu subjects: %llu predictions, %llu loads (%llu swaps), %llu "
        "refusals\n",
        static_cast<unsigned long long>(d.actions), a_.threads, subjects_.size(),
        static_cast<unsigned long long>(d.predictions), static_cast<unsigned long long>(d.loads),
        static_cast<unsigned long long>(d.swaps), static_cast<unsigned long long>(d.refusals));
    constexpr double kMiB = 1 << 20;
    std::printf(
        "soak: resident %.1f MiB after the warm-up, %.1f MiB at the end; the line through %zu samples rises "
        "%.1f MiB, at most %.0f\n",
        watch_.first() / kMiB, watch_.last() / kMiB, watch_.samples(), watch_.rise() / kMiB,
        MemoryWatch::kMostRise / kMiB);
    if (!judges_memory()) {
      std::printf(
          "soak: which is not judged: the emulated device keeps the stacks of its threads "
          "(kernels/emu/track.hpp)\n");
      return 0;
    }
    if (watch_.samples() < 20) std::printf("soak: too few samples of memory to say anything\n");
    return watch_.samples() >= 20 && watch_.rise() <= MemoryWatch::kMostRise ? 0 : 1;
  }

  Arguments a_;
  std::deque<Subject> subjects_;
  std::vector<std::deque<std::string>> leaked_;  // by --plant leak, of each thread
  const uint64_t step_;  // actions of all threads between two samples, 0 with --minutes
  std::mutex watching_;
  MemoryWatch watch_;
  std::atomic<uint64_t> acted_{0};
  std::atomic<unsigned> finished_{0};
};

}  // namespace
}  // namespace dpi::soak

int main(int argc, char** argv) {
  dpi::soak::Arguments a;
  if (!dpi::soak::read(argc, argv, &a)) {
    std::fprintf(stderr,
                 "usage: soak [--minutes M | --actions N] [--threads T] [--seed S] [--devices a,b] [--plant "
                 "leak|score]\n");
    return 2;
  }
  return dpi::soak::Soak(a).run();
}
