// What an endpoint says its versions hold, against the bytes of memory hooks: with one version, with two,
// with a version that a caller does not let go, and after 300 deltas.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "support/endpoint_support.hpp"

namespace dpi::test::endpoint_held_test {
namespace {

// Weights and key indexes are not from hooks: those of these bundles are smaller.
constexpr int64_t kOutside = 16 << 10;

/// Counts the blocks of an environment.
struct Counter {
  std::atomic<int64_t> bytes{0};

  dpi_memory_hooks hooks() {
    dpi_memory_hooks h{};
    h.struct_size = sizeof h;
    h.user = this;
    h.alloc = [](void* self, size_t bytes, size_t alignment, int32_t) {
      void* p = nullptr;
      if (posix_memalign(&p, std::max(alignment, sizeof(void*)), bytes) != 0)
        return static_cast<void*>(nullptr);
      static_cast<Counter*>(self)->bytes += static_cast<int64_t>(bytes);
      return p;
    };
    h.free = [](void* self, void* p, size_t bytes, int32_t) {
      static_cast<Counter*>(self)->bytes -= static_cast<int64_t>(bytes);
      std::free(p);
    };
    return h;
  }
};

struct World {
  EnvPtr env = make_env();
  Counter counter;
  EndpointPtr e;

  explicit World(const char* keep_seconds, const char* fold = "on") {
    const dpi_memory_hooks hooks = counter.hooks();
    REQUIRE(dpi_env_set_memory(env.get(), &hooks, nullptr) == DPI_OK);
    e = make_endpoint("held", {{"max_contexts", "2"}, {"debug.fold", fold}}, env.get());
    set(e.get(), "keep_seconds", keep_seconds);
    set(e.get(), "warm_up_rows", "8");
  }
  int64_t says(const char* key) const {
    return nlohmann::json::parse(status(e.get()).c_str())["memory"][key].get<int64_t>();
  }
  /// What it says, which must be what the hooks gave and little more.
  int64_t held() const {
    const int64_t told = says("held_host_bytes"), given = counter.bytes;
    CHECK(told >= given);
    CHECK(told <= given + kOutside);
    CHECK(says("held_device_bytes") == 0);
    return told;
  }
};

}  // namespace

TEST_CASE("an endpoint says what its versions have allocated, beside the forecast") {
  if (versions() == nullptr) return;
  World w("3600", "off");  // tables that folds derive are not the same in both bundles
  CHECK(w.held() == 0);
  load(w.e.get(), bundle("wide0"));
  const int64_t one = w.held();
  CHECK(one <= w.says("forecast_bytes"));
  const std::string info = [&] {
    dpi_model* m = nullptr;
    REQUIRE(dpi_endpoint_acquire(w.e.get(), &m, nullptr) == DPI_OK);
    const ModelPtr model(m);
    return json_text(dpi_model_info_json, m);
  }();
  const nlohmann::json memory = nlohmann::json::parse(info.c_str())["memory"];
  CHECK(memory["held_host_bytes"].get<int64_t>() == one);  // it has one version
  const int64_t tables = memory["tables_host_bytes"].get<int64_t>();
  CHECK(tables > int64_t{40} << 20);
  CHECK(tables < one);
  CHECK(one <= memory["most_bytes"].get<int64_t>());

  load(w.e.get(), bundle("wide1"));  // the large table is the same: it is there once
  const int64_t two = w.held();
  CHECK(two > one);
  CHECK(two < one + (int64_t{4} << 20));
  CHECK(two <= w.says("forecast_bytes"));
}

TEST_CASE("what a caller does not let go of is counted, and no longer when he does") {
  if (versions() == nullptr) return;
  World w("0");
  load(w.e.get(), bundle(0));
  const int64_t one = w.held();
  dpi_model* held = nullptr;
  REQUIRE(dpi_endpoint_acquire(w.e.get(), &held, nullptr) == DPI_OK);
  load(w.e.get(), bundle(1));
  CHECK(w.held() > one + one / 2);
  dpi_model_free(held);
  CHECK(w.held() == one);
}

TEST_CASE("after 300 deltas an endpoint holds what it held after the first") {
  if (versions() == nullptr) return;
  World w("0");
  load(w.e.get(), bundle(0));
  int64_t first = 0;
  for (int n = 0; n < 300; ++n) {
    load(w.e.get(), versions()->path + "/" + std::to_string(n % kTags) + ".delta");
    if (n == 0) first = w.held();
  }
  CHECK(w.held() <= first + first / 20);
  CHECK(ask(w.e.get(), TagRows(4)).tag == 300 % kTags);
  w.e.reset();
  CHECK(w.counter.bytes == 0);
}

}  // namespace dpi::test::endpoint_held_test
