// An environment whose memory is counted, and models in it. For tests of what models share.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/tier_model.hpp"
#include "support/device.hpp"

namespace dpi::test {

/// Of an environment: bytes that are taken now and were at most, tables apart.
struct Meter {
  std::mutex mutex;
  size_t tables = 0, most_tables = 0, all = 0;

  static void* take(void* user, size_t bytes, size_t alignment, int32_t kind) {
    auto* m = static_cast<Meter*>(user);
    void* const p = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    std::memset(p, 0xFF, bytes);  // NaN for who reads what nobody wrote
    const std::lock_guard<std::mutex> lock(m->mutex);
    m->all += bytes;
    m->tables += kind == 0 ? bytes : 0;
    m->most_tables = std::max(m->most_tables, m->tables);
    return p;
  }
  static void give(void* user, void* p, size_t bytes, int32_t kind) {
    auto* m = static_cast<Meter*>(user);
    std::free(p);
    const std::lock_guard<std::mutex> lock(m->mutex);
    m->all -= bytes;
    m->tables -= kind == 0 ? bytes : 0;
  }
  MemoryHooks hooks() { return {take, give, this}; }
};

struct World {
  Meter meter;
  std::shared_ptr<Environment> environment = Environment::create();
  World() { environment->set_memory(meter.hooks()); }

  ModelOptions options(const Options& more = {}) {
    Options all = {{"debug.fold", "on"}};
    all.insert(all.end(), more.begin(), more.end());
    ModelOptions o = options_of(all);
    o.environment = environment;
    return o;
  }
};

using ModelPtr = std::unique_ptr<Model>;

inline ModelPtr create(Bundle& bundle, const ModelOptions& options) {
  auto made = Model::create(bundle, options);
  REQUIRE_MESSAGE(made.ok(), made.status().message());
  return std::move(made).value();
}

/// Not for ever: a thread that failed sets nothing.
inline void await(const std::atomic<bool>& flag) {
  for (int ms = 0; ms < 20000 && !flag; ++ms) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

inline bool on_host() { return device() != "cuda_emu"; }

inline std::vector<std::string> warnings(World& world) {
  std::vector<std::string> texts;
  LogLevel level{};
  for (std::string text; world.environment->log().poll(true, &text, &level);) {
    if (level == LogLevel::kWarn) texts.push_back(text);
  }
  return texts;
}

}  // namespace dpi::test
