// 2 callers x 2 threads x 3 models of one environment on two processors: the scores of one thread to the bit,
// no more threads than processors while both call, nobody's affinity or OpenMP touched, no thread left when
// the last model has gone, flat memory. Each round loads the models, lets one caller call alone, then both
// without a pause, then both with pauses, and frees the models.
//
//   soak_callers [--minutes M | --rounds N] [--plant score|affinity|openmp|thread|leak]
//
// --plant: a fault that it has to find (its own test). Exit status 0, 1 with what was wrong, 77 where the
// process has fewer than two processors.
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "soak/callers.hpp"
#include "soak/host_state.hpp"
#include "soak/tasks.hpp"

// As the soak's: what was freed is kept for a while, or the resident set says nothing.
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options();
extern "C" const char* __asan_default_options() { return "quarantine_size_mb=16"; }

namespace dpi::soak {
namespace {

constexpr int64_t kCallers = 2, kProcessors = 2, kBound = 1;  // threads of the pool
constexpr const char *kCaller = "soak-caller", *kHelper = "dpi-pool";
// Of the callers' processor time and calls, while both call without a pause: what helpers may take. A caller
// whom other work has ousted between two calls is none, and then the other one is helped, rightly.
constexpr double kMostHelp = 0.05, kMostCrowded = 0.1;
constexpr double kLeastHelp = 0.005;  // of one caller alone
constexpr double kMostIdle = 0.002;   // seconds that a helper looks for work when there is none: 200 us
constexpr auto kIdle = std::chrono::milliseconds(20);

enum Phase { kAlone, kBoth, kPauses, kPhases };
constexpr const char* kPhaseNames[] = {"one caller", "two callers", "two with pauses"};

struct Arguments {
  double minutes = 0;
  uint64_t rounds = 24;
  std::string plant;
};

struct Measured {
  int64_t calls = 0;
  Spent callers, helpers;
  TaskWatch::Seen seen;

  void add(int64_t n, const Spent& c, const Spent& h, const TaskWatch::Seen& s) {
    calls += n;
    callers += c;
    helpers += h;
    seen.looks += s.looks;
    seen.crowded += s.crowded;
    seen.most_helpers = std::max(seen.most_helpers, s.most_helpers);
    seen.most_running = std::max(seen.most_running, s.most_running);
  }
};

class Soak {
 public:
  explicit Soak(const Arguments& a) : a_(a), watch_(kCaller, kHelper, kProcessors) {}

  int run() {
    if (!take_two_processors()) {  // after watch_ has its thread, which may look from elsewhere
      std::printf("soak_callers: skipped: fewer than two processors\n");
      return 77;
    }
    if (const std::string found = mapped_openmp(); !found.empty()) fault(found + " is in the process");
    ThreeModels models;
    if (const std::string found = mapped_openmp(); !found.empty()) fault("the library opened " + found);
    openmp_.emplace();
    if (*openmp_) openmp_->set_threads(7);
    if (a_.plant == "score") models.plant_score();
    const std::string before = host_state(*openmp_);
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::duration<double, std::ratio<60>>(a_.minutes);
    for (uint64_t r = 0; a_.minutes > 0 ? std::chrono::steady_clock::now() < end : r < a_.rounds; ++r) {
      round(models);
      compare_host("the main thread", before);
      memory_.sample();
      if (a_.plant == "leak") leaked_.emplace_back(size_t{4} << 20, 'x');
      if (!faults_.empty()) break;
    }
    return report();
  }

 private:
  void fault(const std::string& text) {
    const std::lock_guard<std::mutex> lock(mutex_);
    faults_.push_back(text);
  }

  void compare_host(const char* who, const std::string& before) {
    const std::string now = host_state(*openmp_);
    if (now != before) fault(std::string(who) + " was '" + before + "' and is '" + now + "'");
  }

  /// Waits until there are `n` threads of the pool; a thread that has ended is seen a moment longer.
  void expect_helpers(int64_t n, const char* when) {
    int64_t found = 0;
    for (int i = 0; i < 60'000 && (found = spent(kHelper).tasks) != n; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (found != n)
      fault(std::to_string(found) + " threads of the pool " + when + ", expected " + std::to_string(n));
  }

  void round(ThreeModels& three) {
    for (auto& m : models_) m.reset();
    auto environment = Environment::create();
    if (!environment->set("threads", "2").ok()) fault("threads=2 is refused");
    for (size_t m = 0; m < ThreeModels::kCount; ++m) models_[m] = three.load(m, environment);
    environment.reset();  // the models keep it
    expect_helpers(kBound, "with three models");
    check_helpers_processors();
    if (a_.plant == "thread") plant_thread();
    std::vector<std::thread> callers;
    ready_.store(0);
    phase_.store(-1);
    for (int64_t c = 0; c < kCallers; ++c)
      callers.emplace_back([this, &three, c] { call(three, static_cast<unsigned>(c)); });
    while (ready_.load() < kCallers) std::this_thread::yield();
    for (int p = 0; p < kPhases; ++p) measure(p);
    check_idle();
    phase_.store(kPhases);
    for (std::thread& t : callers) t.join();
    models_[1].reset();
    models_[0].reset();
    expect_helpers(kBound, "with one model");
    models_[2].reset();
    expect_helpers(0, "after the last model");
    if (planted_.joinable()) planted_.join();
  }

  /// One phase of both callers: until each has had kTurns calls.
  void measure(int p) {
    for (auto& n : calls_) n.store(0);
    const Spent callers = spent(kCaller), helpers = spent(kHelper);
    watch_.begin();
    phase_.store(p);
    const int64_t who = p == kAlone ? 1 : kCallers;
    for (int64_t c = 0; c < who; ++c) {
      while (calls_[c].load() < kTurns) std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    phase_.store(-1);
    while (busy_.load() > 0) std::this_thread::yield();
    const TaskWatch::Seen seen = watch_.end();
    if (seen.most_helpers > kBound) fault(std::to_string(seen.most_helpers) + " threads of the pool");
    if (seen.most_running > kBound + kCallers) fault("more threads run than callers and the pool have");
    if (const std::string who = watch_.stranger(); !who.empty()) fault("a thread '" + who + "' appeared");
    measured_[p].add(calls_[0].load() + calls_[1].load(), spent(kCaller) - callers, spent(kHelper) - helpers,
                     seen);
  }

  /// A caller: its own settings of OpenMP, its part of every phase.
  void call(const ThreeModels& three, unsigned number) {
    pthread_setname_np(pthread_self(), kCaller);
    if (*openmp_) openmp_->set_threads(3 + static_cast<int>(number));
    const std::string before = host_state(*openmp_);
    std::minstd_rand random(number + 1);
    ready_.fetch_add(1);
    for (;;) {
      busy_.fetch_add(1);
      const int p = phase_.load();
      if (p == kPhases) break;
      if (p < 0 || (p == kAlone && number > 0)) {
        busy_.fetch_sub(1);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        continue;
      }
      const size_t m = random() % ThreeModels::kCount;
      const std::vector<Request>& requests = three.requests(m);
      const Request& r = requests[random() % requests.size()];
      const std::vector<float> got = score(*models_[m], r.rows->batch);
      if (got.size() != r.want.size() ||
          std::memcmp(got.data(), r.want.data(), got.size() * sizeof(float)) != 0)
        fault("scores are not those of one thread");
      calls_[number].fetch_add(1);
      busy_.fetch_sub(1);
      if (p == kPauses) std::this_thread::sleep_for(std::chrono::microseconds(random() % 400));
    }
    busy_.fetch_sub(1);
    if (a_.plant == "openmp" && *openmp_) openmp_->set_threads(2);
    if (a_.plant == "affinity") plant_affinity();
    compare_host("a caller", before);
  }

  void check_helpers_processors() {
    std::string own;
    const std::vector<Task> all = tasks();
    for (const Task& t : all) {
      if (t.id == getpid()) own = t.processors;
    }
    for (const Task& t : all) {
      if (t.name == kHelper && t.processors != own)
        fault("a thread of the pool is on processors " + t.processors + ", its starter on " + own);
    }
  }

  /// Helpers look for work for 200 us after the last call.
  void check_idle() {
    std::this_thread::sleep_for(kIdle);  // whoever is late
    const double before = spent(kHelper).seconds;
    std::this_thread::sleep_for(kIdle);
    idle_ = std::max(idle_, spent(kHelper).seconds - before);
  }

  void plant_thread() {
    planted_ = std::thread([] {
      pthread_setname_np(pthread_self(), kHelper);
      std::this_thread::sleep_for(std::chrono::seconds(1));
    });
  }
  static void plant_affinity() {
    cpu_set_t one;
    if (sched_getaffinity(0, sizeof one, &one) != 0) return;
    for (int c = 0; c < CPU_SETSIZE && CPU_COUNT(&one) > 1; ++c) CPU_CLR(c, &one);
    static_cast<void>(sched_setaffinity(0, sizeof one, &one));
  }

  void judge() {
    const Measured &alone = measured_[kAlone], &both = measured_[kBoth];
    if (alone.helpers.seconds < kLeastHelp * alone.callers.seconds) fault("one caller is not helped");
    if (both.helpers.seconds > kMostHelp * both.callers.seconds)
      fault("two callers on two processors are helped: the pool has " +
            std::to_string(both.helpers.seconds / both.callers.seconds) + " of their processor time");
    if (static_cast<double>(both.helpers.slept) > kMostHelp * static_cast<double>(both.calls))
      fault("two callers on two processors wake the pool");
    if (static_cast<double>(both.seen.crowded) > kMostCrowded * static_cast<double>(both.seen.looks))
      fault("more threads than processors run while both call");
    if (idle_ > kMostIdle) fault("a thread of the pool looks for work for " + std::to_string(idle_) + " s");
    if (memory_.samples() < 20) fault("too few samples of memory to say anything");
    if (memory_.rise() > MemoryWatch::kMostRise)
      fault("memory rises " + std::to_string(memory_.rise() / (1 << 20)) + " MiB");
  }

  int report() {
    if (faults_.empty()) judge();
    std::printf("%-16s %8s %10s %16s %10s %16s %8s %8s\n", "", "calls", "callers, s", "slept / ousted",
                "pool, s", "slept / ousted", "looks", "crowded");
    for (int p = 0; p < kPhases; ++p) {
      const Measured& m = measured_[p];
      const auto switches = [](const Spent& s) {
        return std::to_string(s.slept) + " / " + std::to_string(s.ousted);
      };
      std::printf("%-16s %8lld %10.3f %16s %10.3f %16s %8lld %8lld\n", kPhaseNames[p],
                  static_cast<long long>(m.calls), m.callers.seconds, switches(m.callers).c_str(),
                  m.helpers.seconds, switches(m.helpers).c_str(), static_cast<long long>(m.seen.looks),
                  static_cast<long long>(m.seen.crowded));
    }
    std::printf(
        "idle: the pool had %.0f us at most; resident %.1f MiB after the warm-up, %.1f at the end, the line "
        "rises %.1f; %s\n",
        1e6 * idle_, memory_.first() / (1 << 20), memory_.last() / (1 << 20), memory_.rise() / (1 << 20),
        host_state(*openmp_).c_str());
    for (const std::string& f : faults_) std::printf("soak_callers: %s\n", f.c_str());
    return faults_.empty() ? 0 : 1;
  }

  static constexpr int64_t kTurns = 24;

  const Arguments a_;
  TaskWatch watch_;
  std::optional<OpenMp> openmp_;
  std::unique_ptr<Model> models_[ThreeModels::kCount];
  std::atomic<int> phase_{-1};
  std::atomic<int64_t> ready_{0}, busy_{0};  // callers that have begun; that are at a call
  std::atomic<int64_t> calls_[kCallers];
  Measured measured_[kPhases];
  double idle_ = 0;
  MemoryWatch memory_;
  std::vector<std::string> leaked_;
  std::thread planted_;
  std::mutex mutex_;
  std::vector<std::string> faults_;
};

bool read(int argc, char** argv, Arguments* a) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--minutes") {
      a->minutes = std::atof(value.c_str());
    } else if (name == "--rounds") {
      a->rounds = std::strtoull(value.c_str(), nullptr, 10);
    } else if (name == "--plant") {
      a->plant = value;
    } else {
      return false;
    }
  }
  return argc % 2 == 1;
}

}  // namespace
}  // namespace dpi::soak

int main(int argc, char** argv) {
  dpi::soak::Arguments a;
  if (!dpi::soak::read(argc, argv, &a)) {
    std::fprintf(
        stderr,
        "usage: soak_callers [--minutes M | --rounds N] [--plant score|affinity|openmp|thread|leak]\n");
    return 2;
  }
  return dpi::soak::Soak(a).run();
}
