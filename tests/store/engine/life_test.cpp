// The end of a model and of its calls while rows are fetched: free waits for the calls that run, a cancel
// flag ends the wait for rows, a forked child is told, and a signature is asked for whatever tier the rows
// are in. Planted, each seen: free that does not wait; a cancel flag that is looked at between chunks only; a
// signature that is not asked for where there is a tier.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "store/engine/fixture.hpp"
#include "support/sanitizer.hpp"

namespace dpi::test::life_test {
namespace {

const std::string kSmall = "60000";

struct Filled {
  RedisServer redis;
  Filled() { fill_store("redis", {{"address", redis.address()}}); }
  Pairs options(Pairs more = {}) const {
    more.emplace_back("store.redis_address", redis.address());
    more.emplace_back("max_contexts", "8");
    return tiered(kSmall, more);
  }
};

/// Eight callers in loops, and what became of their calls.
struct Callers {
  std::atomic<bool> stop{false};
  std::atomic<int> right{0}, closed{0}, other{0};
  std::vector<std::thread> threads;

  explicit Callers(dpi_model* m) {
    for (uint64_t i = 0; i < 8; ++i) {
      threads.emplace_back([this, m, i] {
        std::mt19937_64 rng(i);
        while (!stop) {
          const Request request(random_rows(4, rng));
          const std::vector<float> want = right_scores(request);
          const Scored got = score(m, request);
          ++(got.code == DPI_E_CLOSED                         ? closed
             : got.code == DPI_OK && identical(got.out, want) ? right
                                                              : other);
        }
      });
    }
  }
  ~Callers() {
    for (std::thread& t : threads) t.join();
  }
};

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE(
    "free under callers whose rows are fetched: each call is finished or told that the model is closed") {
  if (!have_models() || !redis_installed()) return;
  const Filled store;
  for (int i = 0; i < 6; ++i) {
    dpi_model* m =
        (i % 2 == 0 ? load_model(external(), store.options()) : load_model(whole(), tiered(kSmall)))
            .release();
    Callers callers(m);
    while (callers.right < 40) std::this_thread::yield();
    callers.stop = true;  // whoever has not seen it is inside, or about to be
    dpi_model_free(m);
    for (std::thread& t : callers.threads) t.join();
    callers.threads.clear();
    CHECK(callers.other == 0);
  }
}

TEST_CASE("free while a call waits for a server that hangs: it ends when the call does, in seconds") {
  if (!have_models() || !redis_installed()) return;
  Filled store;
  dpi_model* m = load_model(external(), store.options()).release();
  store.redis.pause();
  Scored got;
  std::thread caller([&] { got = score(m, Request({{3, 3, 3, 3, 3, 3, 0, {}}})); });
  sleep_ms(200);
  const uint64_t begin = now_ns();
  dpi_model_free(m);
  const double seconds = static_cast<double>(now_ns() - begin) * 1e-9;
  caller.join();
  store.redis.resume();
  CHECK_MESSAGE(got.code == DPI_E_TIMEOUT, got.message);
  CHECK(seconds < 5);
  MESSAGE("free took ", seconds, " s");
}

TEST_CASE("a cancel flag ends a call that waits for rows, and the next one is right") {
  if (!have_models() || !redis_installed()) return;
  Filled store;
  const ModelPtr m = load_model(external(), store.options());
  const Request request({{3, 3, 3, 3, 3, 3, 0, {}}});
  store.redis.pause();
  for (const int timeout : {0, 20'000}) {
    CAPTURE(timeout);
    int32_t cancel = 0;
    Scored got;
    std::thread caller([&] { got = score(m.get(), request, timeout, &cancel); });
    sleep_ms(200);
    __atomic_store_n(&cancel, 1, __ATOMIC_RELEASE);
    caller.join();
    CHECK_MESSAGE(got.code == DPI_E_CANCELLED, got.message);
    CHECK(got.seconds < 1.0);
  }
  store.redis.resume();
  for (int i = 0; i < 300 && score(m.get(), request, 1000).code != DPI_OK; ++i) sleep_ms(10);
  CHECK(identical(score(m.get(), request).out, right_scores(request)));
}

TEST_CASE("a forked child is told, however many rows its parent fetches, and loads a model of its own") {
  if (!have_models() || !redis_installed()) return;
  const Filled store;
  const ModelPtr m = load_model(external(), store.options());
  const Request request({{3, 3, 3, 3, 3, 3, 0, {}}});
  const std::vector<float> want = right_scores(request);
  Callers callers(m.get());
  for (int i = 0; i < 10; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      std::vector<float> rows(8);
      const int64_t key = 1;
      const bool good =
          score(m.get(), request).code == DPI_E_FORKED &&
          dpi_table_lookup(m.get(), "users", &key, 1, rows.data(), 8, nullptr) == DPI_E_FORKED &&
          dpi_model_counters_json(m.get(), nullptr, 0) == 0;
      if (DPI_UNDER_TSAN) _exit(good ? 0 : 1);  // which refuses threads of a forked child
      const Loaded own = try_load(external(), store.options());
      _exit(good && own.code == DPI_OK && score(own.model.get(), request).out == want ? 0 : 1);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  callers.stop = true;
  for (std::thread& t : callers.threads) t.join();
  callers.threads.clear();
  CHECK(callers.other + callers.closed == 0);
  CHECK(callers.right > 0);
}

TEST_CASE("a signature is asked for with tiers too: of rows in the file, and of what names the others") {
  if (!have_models() || !redis_installed()) return;
  const Filled store;
  const Folder folder;
  const std::string program = DPI_TEST_PROGRAM, key = folder.path() + "/key";
  const auto run = [&](const std::string& arguments) {
    return std::system(("'" + program + "' " + arguments + " >/dev/null 2>&1").c_str()) == 0;
  };
  if (!run("keygen '" + key + "'")) return skip_program("this build cannot sign");
  const std::string line = read_file(key + ".pub");
  const size_t at = line.find("dpi-public-key-1 ");
  REQUIRE(at != std::string::npos);
  const std::string hex = line.substr(at + 17, 64);
  const Request request({{3, 3, 3, 3, 3, 3, 0, {}}, {kRows - 1, 5, 1999, 1998, 1997, 3, 4096, {9, 8}}});
  for (const std::string& path : {whole(), external()}) {
    CAPTURE(path);
    const Pairs options = store.options({{"require_signature", hex}});
    const std::string copy = folder.path() + "/model.h5";
    std::filesystem::copy_file(path, copy, std::filesystem::copy_options::overwrite_existing);
    CHECK(try_load(copy, options).code == DPI_E_BAD_MODEL);
    REQUIRE(run("sign '" + copy + "' --key '" + key + "'"));
    const Loaded signed_model = try_load(copy, options);
    REQUIRE_MESSAGE(signed_model.code == DPI_OK, signed_model.message);
    CHECK(identical(score(signed_model.model.get(), request).out, right_scores(request)));
    std::string bytes = read_file(copy);
    bytes[bytes.size() - 100] ^= 1;  // of the data set that lies last
    std::ofstream(copy, std::ios::binary) << bytes;
    const Loaded changed = try_load(copy, options);
    CHECK_MESSAGE(changed.code == DPI_E_BAD_MODEL, changed.message);
  }
}

}  // namespace dpi::test::life_test
