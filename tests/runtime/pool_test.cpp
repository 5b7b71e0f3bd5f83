// How long the threads of an environment look for work between calls: as long as the models that ask for most
// say, and no longer than the host lets them.
#include <doctest/doctest.h>
#include <sched.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/environment.hpp"
#include "support/sanitizer.hpp"

namespace dpi::test::pool_test {
namespace {

TEST_CASE("threads look as long as models ask for and the host lets them") {
  ThreadPool pool;
  CHECK(pool.spin_ns() == 0);
  pool.spin_for(300'000);
  pool.spin_for(200'000);
  CHECK(pool.spin_ns() == 300'000);
  pool.limit_spin(100'000);
  CHECK(pool.spin_ns() == 100'000);
  pool.limit_spin(0);
  pool.spin_for(400'000);
  CHECK(pool.spin_ns() == 0);
  CHECK_FALSE(pool.awake());
  CHECK_FALSE(pool.awake());  // whom the call before woke sleeps again
  pool.limit_spin(ThreadPool::kMostSpinNs);
  CHECK(pool.spin_ns() == 400'000);
}

TEST_CASE("the keys of an environment, and what they refuse") {
  const auto env = Environment::create();
  for (const char* bad : {"", "-1", "10001", "2us", "two"}) {
    const Status s = env->set("spin_us", bad);
    CHECK(s.code() == Code::kInvalidArgument);
    CHECK(s.message().find("spin_us of an environment is '" + std::string(bad) + "', expected 0 .. 10000") !=
          std::string::npos);
  }
  CHECK(env->set("threads", "257").message().find("threads of an environment is '257', expected 0 .. 256") !=
        std::string::npos);
  CHECK(env->set("spin", "0").code() == Code::kNotFound);
  CHECK(env->set("spin", "0").message().find("known: threads, spin_us") != std::string::npos);
  env->pool().spin_for(200'000);
  REQUIRE(env->set("spin_us", "150").ok());
  CHECK(env->pool().spin_ns() == 150'000);
  REQUIRE(env->set("threads", "3").ok());
  CHECK(env->pool().limit() == 3);
  CHECK(env->pool().spin_ns() == 150'000);
  REQUIRE(env->set("spin_us", "10000").ok());
  CHECK(env->pool().spin_ns() == 200'000);
}

TEST_CASE("after fork the child's threads look no longer than the parent's may") {
  if (DPI_UNDER_TSAN) return;  // it ends a child of several threads that starts one
  const auto env = Environment::create();
  env->pool().spin_for(300'000);
  REQUIRE(env->set("spin_us", "100").ok());
  REQUIRE(env->set("threads", "2").ok());
  const pid_t child = fork();
  if (child == 0) {
    bool good = env->pool().spin_ns() == 100'000 && env->pool().limit() == 2;
    good = good && env->set("spin_us", "10000").ok() && env->pool().spin_ns() == 300'000;
    _exit(good ? 7 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
}

/// Seconds of a processor that the threads of pools have had.
double pool_seconds() {
  double sum = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream comm(task.path() / "comm");
    std::string name;
    if (!std::getline(comm, name) || name != "dpi-pool") continue;
    const auto number = static_cast<uint32_t>(std::stoul(task.path().filename().string()));
    timespec t{};
    if (clock_gettime(static_cast<clockid_t>(~number << 3 | 6), &t) == 0)  // the clock of that thread
      sum += static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }
  return sum;
}

/// Runs a job of two shares, the second on a thread of the pool if it comes within a second.
void run_both(ThreadPool& pool) {
  std::atomic<bool> came{false};
  pool.run(
      2,
      [](void* context, int32_t share) {
        auto& there = *static_cast<std::atomic<bool>*>(context);
        if (share == 1) there = true;
        for (int i = 0; i < 10'000 && !there; ++i) usleep(100);
      },
      &came);
}

/// Of some jobs, the most processor time that the pool had in the 15 ms behind one.
double most_after_jobs(ThreadPool& pool, double enough) {
  double most = 0;
  for (int i = 0; i < 40 && most <= enough; ++i) {
    run_both(pool);
    const double before = pool_seconds();
    usleep(15'000);
    most = std::max(most, pool_seconds() - before);
  }
  return most;
}

TEST_CASE("a pool whose host says so sleeps between jobs, also one that has looked for work") {
  cpu_set_t processors;
  REQUIRE(sched_getaffinity(0, sizeof processors, &processors) == 0);
  if (CPU_COUNT(&processors) < 2) return;  // then nobody looks
  constexpr double kLooks = 0.003, kDoesNot = 0.0015;
  const auto env = Environment::create();
  ThreadPool& pool = env->pool();
  pool.spin_for(10'000'000);
  REQUIRE(pool.grow(2).ok());
  CHECK(most_after_jobs(pool, kLooks) > kLooks);
  REQUIRE(env->set("spin_us", "0").ok());
  usleep(20'000);  // who looks now does so to the end
  CHECK(most_after_jobs(pool, kDoesNot) < kDoesNot);
  REQUIRE(env->set("spin_us", "10000").ok());
  CHECK(most_after_jobs(pool, kLooks) > kLooks);
}

}  // namespace
}  // namespace dpi::test::pool_test
