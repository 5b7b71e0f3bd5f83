// What the library tells: each event arrives at the callback and in the ring, with what to do about it; no
// predict logs; a callback can do as it likes.
#include <atomic>
#include <chrono>
#include <thread>

#include "support/env_support.hpp"

namespace dpi::test::log_test {
namespace {

std::string poll(dpi_env* env, int32_t* level = nullptr) {
  char text[4096] = "";
  return dpi_env_poll_log(env, text, sizeof text, level) > 0 ? text : "";
}

const char* const kAdult = "adult_widedeep.h5";

}  // namespace

TEST_CASE("load tells its stages at debug, and that it is done") {
  const EnvPtr env = make_env();
  Heard heard;
  heard.listen(env.get(), DPI_LOG_DEBUG);
  ModelPtr m;
  REQUIRE(load_in(env.get(), kAdult, {{"device", device()}, {"verify", "golden"}}, &m) == DPI_OK);
  for (const char* stage :
       {"stage open took", "stage plan took", "stage tables took", "stage ops took", "stage verify took"}) {
    CAPTURE(stage);
    CHECK(heard.find("load", stage, DPI_LOG_DEBUG).find(kAdult) != std::string::npos);
  }
  CHECK(heard.find("load", "ready on " + device(), DPI_LOG_INFO).find(" ms") != std::string::npos);
}

TEST_CASE("the name of a file cannot forge a line of the log") {
  const Folder folder;
  const std::string path = folder.path + "/a\x1b[2J\nload: ready \xFF.h5";
  std::filesystem::copy_file(demo(kAdult), path);
  const EnvPtr env = make_env();
  Heard heard;
  heard.listen(env.get(), DPI_LOG_INFO);
  const OptionsPtr o = options({{"device", device()}});
  Error e;
  REQUIRE(dpi_options_set_env(o.get(), env.get(), &e) == DPI_OK);
  dpi_model* m = nullptr;
  REQUIRE(dpi_model_load(path.c_str(), o.get(), &m, &e) == DPI_OK);
  const ModelPtr model(m);
  const std::string shown = "/a\\x1b[2J\\nload: ready \\xff.h5: ready on ";
  CHECK(heard.find("load", shown, DPI_LOG_INFO) != "");
  CHECK(poll(env.get()).find(shown) != std::string::npos);
}

TEST_CASE("a fallback of device=auto and a refused plugin are told with their reason") {
  const Folder folder;
  const std::string file = folder.write("libdpi_cuda.so", "not a library");
  const EnvPtr env = make_env();
  Heard heard;
  heard.listen(env.get(), DPI_LOG_INFO);
  ModelPtr m;
  REQUIRE(load_in(env.get(), kAdult, {{"backend_dir", folder.path}}, &m) == DPI_OK);
  const std::string plugin = heard.find("plugin", file, DPI_LOG_WARN);
  CHECK(plugin.find("is not used") != std::string::npos);
  CHECK(plugin.find("replace the file") != std::string::npos);
  if (info_of(m.get()).device_kind != DPI_DEVICE_CPU) return;  // another plugin was found and works
  const std::string fallback = heard.find("device", "runs on cpu", DPI_LOG_INFO);
  CHECK(fallback.find("device=cpu") != std::string::npos);
  CHECK(fallback.find(file) != std::string::npos);
}

TEST_CASE("a tuning table for another GPU, and a line that cannot be followed, are told") {
  if (device() != "cuda_emu") return;
  const Folder folder;
  const EnvPtr env = make_env();
  Heard heard;
  heard.listen(env.get(), DPI_LOG_WARN);
  ModelPtr m;
  const std::string foreign =
      folder.write("foreign.txt", "dpi-tuning 1\ndevice NVIDIA Other\ncapability 10\ncublaslt 0\n");
  REQUIRE(load_in(env.get(), "bank_dcnv2.h5", {{"device", "cuda_emu"}, {"tuning", foreign}}, &m) == DPI_OK);
  const std::string table = heard.find("tuning", "NVIDIA Other", DPI_LOG_WARN);
  CHECK(table.find("left alone") != std::string::npos);
  CHECK(table.find("tuning=off") != std::string::npos);
}

TEST_CASE("slow waits for a context are told by the next management call, never by a predict") {
  const EnvPtr env = make_env();
  Heard heard;
  heard.listen(env.get(), DPI_LOG_DEBUG);
  ModelPtr m;
  REQUIRE(load_in(env.get(), kAdult, {{"device", device()}, {"max_contexts", "1"}, {"max_rows", "64"}}, &m) ==
          DPI_OK);
  const OneHotRows rows(m.get(), device() == "cuda_emu" ? 256 : 20'000);
  const auto contend = [&] {
    std::vector<std::thread> callers;
    for (int i = 0; i < 3; ++i) callers.emplace_back([&] { static_cast<void>(rows.scores(m.get())); });
    for (std::thread& t : callers) t.join();
  };
  // Whether callers meet is the machine's to say: on one free core they may run one after the other. So until
  // they do.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  std::string counters;
  do {
    const size_t before = heard.count();
    contend();
    CHECK(heard.count() == before);
    counters = json_text(dpi_model_counters_json, m.get());
  } while (counters.find("\"longest_wait_ms\":0.0,") != std::string::npos &&
           std::chrono::steady_clock::now() < deadline);
  CHECK(counters.find("\"waits\":") != std::string::npos);
  CHECK(counters.find("\"waits\":0,") == std::string::npos);
  CHECK(counters.find("\"longest_wait_ms\":0.0,") == std::string::npos);
  const std::string told = heard.find("contexts", "waited for one of 1 contexts", DPI_LOG_WARN);
  CHECK(told.find("max_contexts") != std::string::npos);
  const size_t once = heard.count();
  static_cast<void>(json_text(dpi_model_counters_json, m.get()));
  CHECK(heard.count() == once);
}

TEST_CASE("the ring: levels, order, sizes, and what was lost") {
  const EnvPtr env = make_env();
  Error e;
  ModelPtr m;
  REQUIRE(load_in(env.get(), kAdult, {{"device", "cpu"}}, &m) == DPI_OK);
  CHECK(poll(env.get()) == "");  // nothing at or above the first level, WARN
  REQUIRE(dpi_env_set_log(env.get(), nullptr, nullptr, DPI_LOG_INFO, &e) == DPI_OK);
  REQUIRE(load_in(env.get(), kAdult, {{"device", "cpu"}}, &m) == DPI_OK);
  const size_t size = dpi_env_poll_log(env.get(), nullptr, 0, nullptr);  // takes nothing
  REQUIRE(size > 10);
  int32_t level = -1;
  const std::string text = poll(env.get(), &level);
  CHECK(text.size() + 1 == size);
  CHECK(text.starts_with("load: "));
  CHECK(level == DPI_LOG_INFO);
  CHECK(poll(env.get()) == "");
  REQUIRE(load_in(env.get(), kAdult, {{"device", "cpu"}}, &m) == DPI_OK);
  char small[6] = "";
  CHECK(dpi_env_poll_log(env.get(), small, sizeof small, nullptr) > sizeof small);
  CHECK(std::string(small) == "load:");
  CHECK(poll(env.get()) == "");  // taken, though cut
  REQUIRE(dpi_env_set_log(env.get(), nullptr, nullptr, DPI_LOG_DEBUG, &e) == DPI_OK);
  for (int i = 0; i < 70; ++i) REQUIRE(load_in(env.get(), kAdult, {{"device", "cpu"}}, &m) == DPI_OK);
  CHECK(poll(env.get(), &level).starts_with("log: "));
  CHECK(level == DPI_LOG_WARN);
  int left = 0;
  while (!poll(env.get()).empty()) ++left;
  CHECK(left == 256);
  CHECK(dpi_env_set_log(env.get(), nullptr, nullptr, 5, &e) == DPI_E_INVALID_ARGUMENT);
  REQUIRE(dpi_env_set_log(env.get(), nullptr, nullptr, DPI_LOG_OFF, &e) == DPI_OK);
  REQUIRE(load_in(env.get(), kAdult, {{"device", "cpu"}}, &m) == DPI_OK);
  CHECK(poll(env.get()) == "");
}

namespace {

/// A callback that loads another model, changes the callback and frees models: all it should not.
struct Meddler {
  dpi_env* env;
  std::atomic<int> calls{0};

  static void hear(void* user, int32_t, const char*, const char*) {
    auto* self = static_cast<Meddler*>(user);
    if (self->calls.fetch_add(1) > 0) return;
    ModelPtr m;
    CHECK(load_in(self->env, kAdult, {{"device", "cpu"}}, &m) == DPI_OK);
    CHECK(dpi_env_set_log(self->env, hear, user, DPI_LOG_DEBUG, nullptr) == DPI_OK);
    m.reset();
  }
};

struct Slow {
  std::atomic<int> inside{0};
  std::atomic<bool> gone{false}, late{false};

  static void hear(void* user, int32_t, const char*, const char*) {
    auto* self = static_cast<Slow*>(user);
    self->inside.fetch_add(1);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (self->gone.load()) self->late.store(true);
  }
};

}  // namespace

TEST_CASE("a callback may call the library, and what that causes is kept for polling") {
  const EnvPtr env = make_env();
  Meddler meddler{env.get()};
  REQUIRE(dpi_env_set_log(env.get(), Meddler::hear, &meddler, DPI_LOG_INFO, nullptr) == DPI_OK);
  ModelPtr m;
  REQUIRE(load_in(env.get(), kAdult, {{"device", "cpu"}}, &m) == DPI_OK);
  CHECK(meddler.calls == 1);  // the inner load did not call it again
  CHECK(poll(env.get()).starts_with("load: "));
  CHECK(poll(env.get()).starts_with("load: "));
  REQUIRE(dpi_env_set_log(env.get(), nullptr, nullptr, DPI_LOG_WARN, nullptr) == DPI_OK);
}

TEST_CASE("a callback that was taken away does not run any more") {
  const EnvPtr env = make_env();
  Slow slow;
  REQUIRE(dpi_env_set_log(env.get(), Slow::hear, &slow, DPI_LOG_INFO, nullptr) == DPI_OK);
  std::thread loader([&] {
    ModelPtr m;
    CHECK(load_in(env.get(), kAdult, {{"device", "cpu"}}, &m) == DPI_OK);
  });
  while (slow.inside.load() == 0) std::this_thread::yield();
  REQUIRE(dpi_env_set_log(env.get(), nullptr, nullptr, DPI_LOG_WARN, nullptr) == DPI_OK);
  slow.gone.store(true);
  loader.join();
  CHECK_FALSE(slow.late.load());
}

TEST_CASE("sixteen threads load and score in two environments while callbacks change") {
  const EnvPtr envs[2] = {make_env(), make_env()};
  Heard heard[2];
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 14; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < 3; ++k) {
        ModelPtr m;
        if (load_in(envs[i % 2].get(), kAdult,
                    {{"device", device()}, {"threads", "3"}, {"max_contexts", "1"}}, &m) != DPI_OK) {
          ++wrong;
          continue;
        }
        const OneHotRows rows(m.get(), device() == "cuda_emu" ? 40 : 700);
        const std::vector<float> once = rows.scores(m.get());
        if (!identical(once, rows.scores(m.get()))) ++wrong;
        static_cast<void>(json_text(dpi_model_counters_json, m.get()));
      }
    });
  }
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; !stop.load(); ++k) {
        const bool on = k % 2 == 0;
        static_cast<void>(
            dpi_env_set_log(envs[i].get(), on ? Heard::hear : nullptr, &heard[i], k % 3, nullptr));
        static_cast<void>(poll(envs[i].get()));
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }
  for (int i = 0; i < 14; ++i) threads[static_cast<size_t>(i)].join();
  stop.store(true);
  threads[14].join();
  threads[15].join();
  CHECK(wrong == 0);
}

}  // namespace dpi::test::log_test
