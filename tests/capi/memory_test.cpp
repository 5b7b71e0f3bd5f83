// Memory hooks of an environment: what is taken is given back with the same size and kind, and any allocation
// may fail.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>

#include "support/env_support.hpp"

namespace dpi::test::memory_test {
namespace {

const char* const kAdult = "adult_widedeep.h5";

/// Counts, checks every free against its allocation, and refuses the n-th call.
struct Meter {
  struct Block {
    size_t bytes;
    int32_t kind;
  };

  std::mutex mutex;
  std::map<void*, Block> blocks;
  int64_t calls = 0, refuse = 0, faults = 0;
  size_t taken[4] = {}, bytes = 0, most = 0;
  size_t off = 0;  // bytes by which results miss their alignment

  static void* take(void* user, size_t bytes, size_t alignment, int32_t kind) {
    auto* m = static_cast<Meter*>(user);
    const std::lock_guard<std::mutex> lock(m->mutex);
    if (++m->calls == m->refuse) return nullptr;
    if (bytes == 0 || alignment < 64 || (alignment & (alignment - 1)) != 0 || kind < 0 || kind > 3)
      ++m->faults;
    char* p = static_cast<char*>(std::aligned_alloc(alignment, (bytes / alignment + 2) * alignment)) + m->off;
    m->blocks[p] = {bytes, kind};
    m->most = std::max(m->most, m->bytes += bytes);
    m->taken[kind] += bytes;
    return p;
  }
  static void give(void* user, void* p, size_t bytes, int32_t kind) {
    auto* m = static_cast<Meter*>(user);
    const std::lock_guard<std::mutex> lock(m->mutex);
    const auto found = m->blocks.find(p);
    if (found == m->blocks.end() || found->second.bytes != bytes || found->second.kind != kind) ++m->faults;
    if (found == m->blocks.end()) return;
    m->bytes -= bytes;
    m->blocks.erase(found);
    std::free(static_cast<char*>(p) - m->off);
  }
  dpi_memory_hooks hooks() {
    dpi_memory_hooks h{};
    h.struct_size = sizeof h;
    h.alloc = take;
    h.free = give;
    h.user = this;
    return h;
  }
};

/// Loads, scores through the pool and on an own context; the first status that is not OK.
dpi_status whole_run(dpi_env* env, const std::vector<float>& want) {
  ModelPtr m;
  const dpi_status loaded = load_in(env, kAdult, {{"device", device()}, {"max_contexts", "2"}}, &m);
  if (loaded != DPI_OK) return loaded;
  const OneHotRows rows(m.get(), 9);
  std::vector<float> out(9);
  Error e;
  const dpi_status scored = dpi_predict(m.get(), &rows.batch, out.data(), out.size(), nullptr, &e);
  if (scored != DPI_OK) {  // the model goes on
    CHECK(e.text().find("cannot allocate") != std::string::npos);
    CHECK(identical(rows.scores(m.get()), want));
    return scored;
  }
  CHECK(identical(out, want));
  dpi_context* c = nullptr;
  const dpi_status made = dpi_context_create(m.get(), 9, 0, &c, &e);
  const ContextPtr context(c);
  return made;
}

}  // namespace

TEST_CASE("any allocation may be refused, and nothing stays") {
  const ModelPtr plain = load(kAdult);
  const OneHotRows rows(plain.get(), 9);
  const std::vector<float> want = rows.scores(plain.get());
  const EnvPtr env = make_env();
  Meter meter;
  const dpi_memory_hooks hooks = meter.hooks();
  REQUIRE(dpi_env_set_memory(env.get(), &hooks, nullptr) == DPI_OK);
  REQUIRE(whole_run(env.get(), want) == DPI_OK);
  const int64_t all = meter.calls;
  CHECK(all > 5);
  for (const int32_t kind : {DPI_BLOCK_TABLES, DPI_BLOCK_SCRATCH, DPI_BLOCK_STAGING})
    CHECK(meter.taken[kind] > 0);
  const std::string info = json_text(dpi_model_info_json, plain.get());
  const std::string key = "\"tables_host_bytes\":";
  REQUIRE(info.find(key) != std::string::npos);
  CHECK(meter.taken[DPI_BLOCK_TABLES] >= std::stoull(info.substr(info.find(key) + key.size())));
  CHECK(meter.blocks.empty());
  for (int64_t n = 1; n <= all; ++n) {
    CAPTURE(n);
    meter.calls = 0;
    meter.refuse = n;
    CHECK(whole_run(env.get(), want) == DPI_E_OUT_OF_MEMORY);
    CHECK(meter.blocks.empty());
  }
  CHECK(meter.faults == 0);
}

TEST_CASE(
    "blocks of every model are within its forecast, also where contexts are a little more than huge pages") {
  for (const char* bundle : {kAdult, "msweb_can.h5", "bank_dcnv2.h5"}) {
    for (const char* contexts : {"2", "16"}) {
      for (int rows = 64; rows <= (device() == "ref" ? 256 : 4096); rows *= 4) {  // ref is slow
        CAPTURE(bundle);
        CAPTURE(contexts);
        CAPTURE(rows);
        const EnvPtr env = make_env();
        Meter meter;
        const dpi_memory_hooks hooks = meter.hooks();
        REQUIRE(dpi_env_set_memory(env.get(), &hooks, nullptr) == DPI_OK);
        ModelPtr m;
        REQUIRE(
            load_in(env.get(), bundle,
                    {{"device", device()}, {"max_contexts", contexts}, {"max_rows", std::to_string(rows)}},
                    &m) == DPI_OK);
        REQUIRE(dpi_model_warm_up(m.get(), rows, nullptr) == DPI_OK);
        const std::string info = json_text(dpi_model_info_json, m.get());
        const std::string key = "\"most_bytes\":";
        REQUIRE(info.find(key) != std::string::npos);
        CHECK(meter.most <= std::stoull(info.substr(info.find(key) + key.size())));
        m.reset();
        CHECK(meter.faults == 0);
      }
    }
  }
}

TEST_CASE("hooks are those of the time of loading; misaligned blocks are refused") {
  const EnvPtr env = make_env();
  Meter meter;
  dpi_memory_hooks hooks = meter.hooks();
  REQUIRE(dpi_env_set_memory(env.get(), &hooks, nullptr) == DPI_OK);
  ModelPtr hooked, plain;
  REQUIRE(load_in(env.get(), kAdult, {{"device", device()}}, &hooked) == DPI_OK);
  REQUIRE(dpi_env_set_memory(env.get(), nullptr, nullptr) == DPI_OK);
  const int64_t before = meter.calls;
  REQUIRE(load_in(env.get(), kAdult, {{"device", device()}}, &plain) == DPI_OK);
  CHECK(meter.calls == before);
  const OneHotRows rows(plain.get(), 5);
  CHECK(identical(rows.scores(plain.get()), rows.scores(hooked.get())));
  CHECK(meter.calls > before);  // the context of the model with hooks
  hooked.reset();
  CHECK(meter.blocks.empty());
  meter.off = 8;
  REQUIRE(dpi_env_set_memory(env.get(), &hooks, nullptr) == DPI_OK);
  CHECK(load_in(env.get(), kAdult, {{"device", device()}}, &hooked) == DPI_E_INVALID_ARGUMENT);
  CHECK(meter.blocks.empty());
  CHECK(meter.faults == 0);
  hooks.free = nullptr;
  CHECK(dpi_env_set_memory(env.get(), &hooks, nullptr) == DPI_E_INVALID_ARGUMENT);
}

}  // namespace dpi::test::memory_test
