// What a forked child may ask, while threads that it has not were inside the library: every answer comes.
#include <dpi/endpoint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "support/capi_support.hpp"
#include "support/sanitizer.hpp"

namespace dpi::test::fork_test {
namespace {

constexpr int kForks = 150, kDone = 100;
constexpr unsigned kHangs = 60;  // seconds: a child that waits for a lock of a thread it has not

/// A child's exit status: kDone, or the number of the first check that fails, from 1.
int checked(const std::vector<bool>& checks) {
  const auto wrong = std::find(checks.begin(), checks.end(), false);
  return wrong == checks.end() ? kDone : 1 + static_cast<int>(wrong - checks.begin());
}

std::string told(int status) {
  if (WIFSIGNALED(status)) return std::string("signal: ") + strsignal(WTERMSIG(status));
  return WEXITSTATUS(status) == kDone ? "" : "check " + std::to_string(WEXITSTATUS(status)) + " fails";
}

/// Forks while threads run the bodies in loops; what is wrong with the first child that does not end as it
/// should.
std::string children_answer(const std::vector<std::function<void()>>& bodies,
                            const std::function<int()>& child) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (const auto& body : bodies)
    threads.emplace_back([&stop, &body] {
      while (!stop.load()) body();
    });
  std::string wrong;
  for (int i = 0; wrong.empty() && i < kForks; ++i) {
    const pid_t pid = fork();
    if (pid == 0) {
      alarm(kHangs);
      _exit(child());
    }
    int status = 0;
    wrong = pid > 0 && waitpid(pid, &status, 0) == pid ? told(status) : "no child";
    usleep(100);
  }
  stop.store(true);
  for (std::thread& t : threads) t.join();
  return wrong;
}

void make_rows(dpi_model* m) {
  dpi_rows* r = nullptr;
  if (dpi_rows_create(m, &r, nullptr) == DPI_OK) dpi_rows_free(r);
}

void make_context(dpi_model* m) {
  dpi_context* c = nullptr;
  if (dpi_context_create(m, 1, 0, &c, nullptr) == DPI_OK) dpi_context_free(c);
}

}  // namespace

TEST_CASE("a child may ask its parent's model anything, whatever the parent's threads were at") {
  const ModelPtr m = load("adult_widedeep.h5");
  const OneHotRows rows(m.get(), 1);
  const std::vector<std::function<void()>> bodies = {[&] { make_rows(m.get()); },
                                                     [&] { make_context(m.get()); },
                                                     [&] { dpi_model_counters_json(m.get(), nullptr, 0); },
                                                     [&] { dpi_model_info_json(m.get(), nullptr, 0); }};
  CHECK(children_answer(bodies, [&] {
          float out = 0;
          dpi_rows* r = nullptr;
          dpi_context* c = nullptr;
          char text[64] = "?";
          const int exit_status = checked(
              {dpi_predict(m.get(), &rows.batch, &out, 1, nullptr, nullptr) == DPI_E_FORKED,
               dpi_rows_create(m.get(), &r, nullptr) == DPI_E_FORKED,
               dpi_context_create(m.get(), 1, 0, &c, nullptr) == DPI_E_FORKED,
               dpi_model_warm_up(m.get(), 1, nullptr) == DPI_E_FORKED,
               dpi_table_lookup(m.get(), "sex", nullptr, 0, nullptr, 0, nullptr) == DPI_E_FORKED,
               dpi_table_dim(m.get(), "sex") == -1,
               dpi_model_counters_json(m.get(), text, sizeof text) == 0 && text[0] == '\0',
               dpi_model_info_json(m.get(), nullptr, 0) == 0, dpi_model_schema_json(m.get(), nullptr, 0) == 0,
               info_of(m.get()).num_heads == 1, dpi_model_feature_name(m.get(), 0) != nullptr,
               dpi_model_head_name(m.get(), 0) != nullptr,
               dpi_model_feature_index(m.get(), dpi_model_feature_name(m.get(), 0)) == 0});
          dpi_model_free(m.get());
          return exit_status;
        }) == "");
  CHECK(dpi_model_counters_json(m.get(), nullptr, 0) > 0);
}

TEST_CASE("a child loads, frees and lists devices, whatever the parent's threads were loading") {
  const auto load_and_free = [] {
    dpi_model* m = nullptr;
    const bool loaded = dpi_model_load(demo("adult_widedeep.h5").c_str(), nullptr, &m, nullptr) == DPI_OK;
    dpi_model_free(m);
    return loaded;
  };
  const auto list = [] { return dpi_devices_json("/no/such/folder", nullptr, 0) > 0; };
  // ThreadSanitizer's dlopen() takes a lock of its own, which a fork beside it leaves locked in the child:
  // no thread of the parent opens libraries there.
  const auto beside = [&] {
    if constexpr (DPI_UNDER_TSAN)
      static_cast<void>(load_and_free());
    else
      static_cast<void>(list());
  };
  CHECK(children_answer({[&] { static_cast<void>(load_and_free()); }, beside, beside},
                        [&] { return checked({list(), load_and_free()}); }) == "");
}

TEST_CASE("a child makes endpoints of its own, and its parent's answer that they are the parent's") {
  const OptionsPtr o = options({{"device", device()}, {"max_contexts", "1"}});
  dpi_endpoint* e = nullptr;
  REQUIRE(dpi_endpoint_create("forks", o.get(), &e, nullptr) == DPI_OK);
  REQUIRE(dpi_endpoint_load(e, demo("adult_widedeep.h5").c_str(), 0, nullptr) == DPI_OK);
  const ModelPtr m = load("adult_widedeep.h5");
  const OneHotRows rows(m.get(), 1);
  const auto predict = [&](dpi_endpoint* on) {
    float out = 0;
    return dpi_endpoint_predict(on, &rows.batch, &out, 1, nullptr, nullptr);
  };
  std::atomic<bool> loaded{true};
  const std::vector<std::function<void()>> bodies = {
      [&] { static_cast<void>(predict(e)); }, [&] { dpi_endpoint_status_json(e, nullptr, 0); },
      [&] {
        if (dpi_endpoint_load(e, demo("adult_widedeep.h5").c_str(), 0, nullptr) != DPI_OK)
          loaded.store(false);
      }};
  // An endpoint has a thread, and ThreadSanitizer ends a child of a process with threads that starts one.
  const auto makes_its_own = [&] {
    if constexpr (DPI_UNDER_TSAN) return true;
    dpi_endpoint* own = nullptr;
    const bool serves = dpi_endpoint_create("forks", o.get(), &own, nullptr) == DPI_OK &&
                        dpi_endpoint_load(own, demo("adult_widedeep.h5").c_str(), 0, nullptr) == DPI_OK &&
                        predict(own) == DPI_OK;
    dpi_endpoint_free(own);
    return serves;
  };
  CHECK(children_answer(bodies, [&] {
          dpi_model* held = nullptr;
          const int exit_status = checked({predict(e) == DPI_E_FORKED, dpi_endpoint_version(e) == 0,
                                           dpi_endpoint_load(e, "x", 0, nullptr) == DPI_E_FORKED,
                                           dpi_endpoint_rollback(e, nullptr) == DPI_E_FORKED,
                                           dpi_endpoint_set(e, "golden", "on", nullptr) == DPI_E_FORKED,
                                           dpi_endpoint_follow(e, "/", nullptr) == DPI_E_FORKED,
                                           dpi_endpoint_wait(e, 1, 0, nullptr) == DPI_E_FORKED,
                                           dpi_endpoint_acquire(e, &held, nullptr) == DPI_E_FORKED,
                                           dpi_endpoint_status_json(e, nullptr, 0) == 0, makes_its_own()});
          dpi_endpoint_unfollow(e);
          dpi_endpoint_free(e);
          return exit_status;
        }) == "");
  CHECK(loaded.load());
  CHECK(predict(e) == DPI_OK);
  dpi_endpoint_free(e);
}

}  // namespace dpi::test::fork_test
