// Environments: who keeps them, their threads, fork, versions; progress and cancellation of loads.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "support/env_support.hpp"
#include "support/sanitizer.hpp"

namespace dpi::test::env_test {
namespace {

const char* const kAdult = "adult_widedeep.h5";

struct PoolThread {
  uint64_t blocked = 0;  // signal mask
};

/// The threads named dpi-pool of this process.
std::vector<PoolThread> pool_threads() {
  std::vector<PoolThread> found;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    PoolThread t;
    bool named = false;
    for (std::string line; std::getline(status, line);) {
      if (line == "Name:\tdpi-pool") named = true;
      if (line.starts_with("SigBlk:\t")) t.blocked = std::stoull(line.substr(8), nullptr, 16);
    }
    if (named) found.push_back(t);
  }
  return found;
}

bool blocks(const PoolThread& t, int signal) { return (t.blocked >> (signal - 1) & 1) != 0; }

/// Pool threads name themselves: waits until `n` have, or do not exist any more; on a busy machine, a minute.
size_t count_threads(size_t n) {
  for (int i = 0; i < 60'000 && pool_threads().size() != n; ++i) usleep(1000);
  return pool_threads().size();
}

}  // namespace

TEST_CASE("threads: one pool for the models of an environment, bounded, without the host's signals") {
  REQUIRE(pool_threads().empty());
  {
    const EnvPtr env = make_env();
    ModelPtr one, three, two;
    REQUIRE(load_in(env.get(), kAdult, {{"device", "cpu"}}, &one) == DPI_OK);
    CHECK(pool_threads().empty());
    REQUIRE(load_in(env.get(), kAdult, {{"device", "cpu"}, {"threads", "3"}}, &three) == DPI_OK);
    CHECK(count_threads(2) == 2);
    REQUIRE(load_in(env.get(), kAdult, {{"device", "cpu"}, {"threads", "2"}}, &two) == DPI_OK);
    CHECK(count_threads(2) == 2);
    for (const PoolThread& t : pool_threads()) {
      for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD, SIGPROF, SIGALRM})
        CHECK(blocks(t, signal));
      for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) CHECK_FALSE(blocks(t, signal));
    }
    sigset_t mine;
    REQUIRE(pthread_sigmask(SIG_SETMASK, nullptr, &mine) == 0);
    CHECK(sigismember(&mine, SIGTERM) == 0);  // this thread's mask is as it was
    const OneHotRows rows(one.get(), 2000);
    const std::vector<float> want = rows.scores(one.get());
    CHECK(identical(rows.scores(three.get()), want));
    CHECK(identical(rows.scores(two.get()), want));
  }
  CHECK(count_threads(0) == 0);  // they end with the environment
}

TEST_CASE("the key threads of an environment bounds its pool; other keys and values are refused") {
  const EnvPtr env = make_env();
  Error e;
  CHECK(dpi_env_set(env.get(), "thread", "2", &e) == DPI_E_NOT_FOUND);
  CHECK(e.text().find("known: threads, spin_us") != std::string::npos);
  for (const char* bad : {"", "-1", "257", "2x", "two"})
    CHECK(dpi_env_set(env.get(), "threads", bad, &e) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_env_set(env.get(), nullptr, "1", &e) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_env_set(env.get(), "spin_us", "10001", &e) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_env_set(env.get(), "spin_us", "0", &e) == DPI_OK);
  REQUIRE(dpi_env_set(env.get(), "threads", "2", &e) == DPI_OK);
  ModelPtr m;
  REQUIRE(load_in(env.get(), kAdult, {{"device", "cpu"}, {"threads", "8"}}, &m) == DPI_OK);
  CHECK(count_threads(1) == 1);
}

TEST_CASE("a model and options keep their environment") {
  ModelPtr m;
  OptionsPtr o(dpi_options_create());
  {
    const EnvPtr env = make_env();
    REQUIRE(dpi_options_set_env(o.get(), env.get(), nullptr) == DPI_OK);
    REQUIRE(load_in(env.get(), kAdult, {{"device", "cpu"}, {"threads", "2"}}, &m) == DPI_OK);
  }
  const OneHotRows rows(m.get(), 1000);
  CHECK(rows.scores(m.get()).size() == 1000);
  dpi_model* raw = nullptr;
  REQUIRE(dpi_model_load(demo(kAdult).c_str(), o.get(), &raw, nullptr) == DPI_OK);
  dpi_model_free(raw);
  CHECK(dpi_options_set_env(nullptr, nullptr, nullptr) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_env_create(nullptr, nullptr) == DPI_E_INVALID_ARGUMENT);
  dpi_env_free(nullptr);
}

TEST_CASE("after fork a child loads in its parent's environments, with threads of its own") {
  if (DPI_UNDER_TSAN) return;  // it ends a child of several threads that starts one
  const EnvPtr env = make_env();
  ModelPtr m;
  REQUIRE(load_in(env.get(), kAdult, {{"device", "cpu"}, {"threads", "3"}}, &m) == DPI_OK);
  const OneHotRows rows(m.get(), 2000);
  const std::vector<float> want = rows.scores(m.get());
  std::atomic<bool> stop{false};
  std::thread busy([&] {  // the fork meets locks and jobs of another thread
    while (!stop.load()) {
      static_cast<void>(rows.scores(m.get()));
      static_cast<void>(dpi_env_set_log(env.get(), nullptr, nullptr, DPI_LOG_DEBUG, nullptr));
    }
  });
  for (int i = 0; i < 5; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      dpi_model* mine = nullptr;
      const OptionsPtr o(dpi_options_create());
      bool good = dpi_options_set_env(o.get(), i % 2 == 0 ? env.get() : nullptr, nullptr) == DPI_OK &&
                  dpi_options_set(o.get(), "device", "cpu", nullptr) == DPI_OK &&
                  dpi_options_set(o.get(), "threads", "3", nullptr) == DPI_OK &&
                  dpi_model_load(demo(kAdult).c_str(), o.get(), &mine, nullptr) == DPI_OK;
      std::vector<float> got(want.size());
      good = good && dpi_predict(mine, &rows.batch, got.data(), got.size(), nullptr, nullptr) == DPI_OK &&
             got == want;
      dpi_model_free(mine);
      _exit(good ? 7 : 1);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 7);
  }
  stop.store(true);
  busy.join();
}

TEST_CASE("the version of a model, and of what scored a call") {
  const ModelPtr m = load(kAdult);
  CHECK(info_of(m.get()).version == 1);
  const OneHotRows rows(m.get(), 3);
  std::vector<float> out(3);
  uint64_t version = 99;
  dpi_run_options run{};
  run.struct_size = sizeof run;
  run.version = &version;
  Error e;
  CHECK(dpi_predict(m.get(), &rows.batch, out.data(), 2, &run, &e) == DPI_E_INVALID_ARGUMENT);
  CHECK(version == 99);  // a failing call touches no output
  CHECK(dpi_predict(m.get(), &rows.batch, out.data(), 3, &run, &e) == DPI_OK);
  CHECK(version == 1);
}

namespace {

struct Seen {
  std::vector<std::pair<std::string, std::pair<uint64_t, uint64_t>>> calls;
  volatile int32_t cancel = 0;
  std::string cancel_at;

  static void tell(void* user, const char* stage, uint64_t done, uint64_t total) {
    auto* s = static_cast<Seen*>(user);
    s->calls.push_back({stage, {done, total}});
    if (s->cancel_at == stage) __atomic_store_n(&s->cancel, 1, __ATOMIC_RELEASE);
  }
};

dpi_status load_seen(Seen* seen, ModelPtr* out, Error* e) {
  const OptionsPtr o = options({{"device", device()}, {"verify", "golden"}});
  REQUIRE(dpi_options_set_progress(o.get(), Seen::tell, seen, &seen->cancel, e) == DPI_OK);
  dpi_model* m = nullptr;
  const dpi_status s = dpi_model_load(demo(kAdult).c_str(), o.get(), &m, e);
  out->reset(m);
  return s;
}

}  // namespace

TEST_CASE("progress of a load: every stage from its begin to its end") {
  Seen seen;
  ModelPtr m;
  Error e;
  REQUIRE(load_seen(&seen, &m, &e) == DPI_OK);
  std::vector<std::string> stages;
  for (size_t i = 0; i < seen.calls.size(); ++i) {
    const auto& [stage, at] = seen.calls[i];
    CAPTURE(stage);
    CHECK(at.first <= at.second);
    if (stages.empty() || stages.back() != stage) {
      stages.push_back(stage);
      if (stage != "open") CHECK(at.first == 0);
    } else {
      CHECK(at.first > seen.calls[i - 1].second.first);
    }
    const bool last = i + 1 == seen.calls.size() || seen.calls[i + 1].first != stage;
    if (last) CHECK(at.first == at.second);
  }
  CHECK(stages == std::vector<std::string>{"open", "plan", "tables", "ops", "verify"});
  CHECK(seen.calls.size() <= 5 * 102);
}

TEST_CASE("a load is cancelled in any stage and keeps nothing") {
  for (const char* stage : {"open", "plan", "tables", "ops", "verify"}) {
    CAPTURE(stage);
    Seen seen;
    seen.cancel_at = stage;
    ModelPtr m;
    Error e;
    CHECK(load_seen(&seen, &m, &e) == DPI_E_CANCELLED);
    CHECK(e.text().find("the load was cancelled") != std::string::npos);
    CHECK(m == nullptr);
  }
}

}  // namespace dpi::test::env_test
