// Every error path of the CUDA backend and of the runtime above it: the n-th call of each kind to the
// emulated device fails, n = 1, 2, ... until a whole run needs fewer calls. A failure is a status with a
// text, leaves nothing allocated and nothing for cudaGetLastError to find, and the same model gives the right
// scores afterwards.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "kernels/emu/control.hpp"
#include "support/emu_plugin.hpp"
#include "support/env_support.hpp"

namespace dpi::test::fault_test {
namespace {

constexpr int64_t kRows = 5;
constexpr int kFirstPredicts = 3;  // op by op, captured, replayed
constexpr int kOutOfMemory = 2;
constexpr int kLaunchFailure = 719;

// The functions of the plugin that the library has loaded.
struct Plugin {
  void* library = nullptr;
  decltype(&dpi_emu_fail) fail = nullptr;
  decltype(&dpi_emu_calls) calls = nullptr;
  decltype(&dpi_emu_live) live = nullptr;
  decltype(&dpi_emu_last_code) last_code = nullptr;

  Plugin() {
    library = dlopen(emu_plugin_path().c_str(), RTLD_NOW | RTLD_LOCAL);
    REQUIRE_MESSAGE(library != nullptr, dlerror());
    fail = reinterpret_cast<decltype(fail)>(dlsym(library, "dpi_emu_fail"));
    calls = reinterpret_cast<decltype(calls)>(dlsym(library, "dpi_emu_calls"));
    live = reinterpret_cast<decltype(live)>(dlsym(library, "dpi_emu_live"));
    last_code = reinterpret_cast<decltype(last_code)>(dlsym(library, "dpi_emu_last_code"));
    REQUIRE((fail && calls && live && last_code));
  }
  ~Plugin() {
    fail(nullptr);
    dlclose(library);
  }
  Plugin(const Plugin&) = delete;

  std::string alive() const { return emu_alive(live); }
};

std::string fault(const char* kind, int64_t n) {
  const bool memory = std::string(kind) == "alloc" || std::string(kind) == "pinned";
  return std::string(kind) + ':' + std::to_string(n) + ':' +
         std::to_string(memory ? kOutOfMemory : kLaunchFailure);
}

const std::vector<const char*>& kinds() {
  static const std::vector<const char*> kKinds{"alloc",  "pinned",  "copy",  "launch", "event",
                                               "stream", "capture", "graph", "sync"};
  return kKinds;
}

std::string bundle(const char* name) { return source_dir() + "/tests/e2e/golden/" + name + ".h5"; }

struct Outcome {
  dpi_status status = DPI_OK;
  std::string text;
  std::vector<float> scores;
  bool fired = false;  // the planned call was reached
  int64_t graphs = 0;  // launched
};

Outcome predict(dpi_model* m, const OneHotRows& request) {
  Outcome o;
  Error e;
  o.scores.assign(static_cast<size_t>(kRows) * request.heads, -1.0f);
  o.status = dpi_predict(m, &request.batch, o.scores.data(), o.scores.size(), nullptr, &e);
  o.text = e.text();
  return o;
}

// How a model is run.
struct How {
  const char* bundle;
  const char* graphs;
  const char* small_batch;  // "on": one kernel for the whole model
  const char* fetch = "kernel";
};

std::string text_of(const How& how) {
  return std::string(how.bundle) + ", graphs " + how.graphs + ", small_batch " + how.small_batch +
         ", fetch " + how.fetch + ", ";
}

Outcome load_model(const How& how, ModelPtr* out) {
  Outcome o;
  Error e;
  dpi_model* m = nullptr;
  const OptionsPtr opts = options({{"device", "cuda_emu"},
                                   {"max_rows", "8"},
                                   {"max_contexts", "1"},
                                   {"debug.fold", "off"},  // several streams even for a small model
                                   {"debug.graphs", how.graphs},
                                   {"small_batch", how.small_batch},
                                   {"debug.fetch", how.fetch}});
  o.status = dpi_model_load(bundle(how.bundle).c_str(), opts.get(), &m, &e);
  o.text = e.text();
  out->reset(m);
  return o;
}

// Loads and predicts. Faults that are planned for later hit the release of the model: nobody hears of those.
Outcome whole_run(const How& how, const char* kind = "", int64_t n = 0) {
  const Plugin plugin;
  REQUIRE(plugin.fail(n > 0 ? fault(kind, n).c_str() : nullptr));
  ModelPtr model;
  Outcome o = load_model(how, &model);
  for (int i = 0; i < kFirstPredicts && o.status == DPI_OK; ++i)
    o = predict(model.get(), OneHotRows(model.get(), kRows));
  o.fired = n > 0 && plugin.calls(kind) >= n;
  o.graphs = plugin.calls("graph");
  model.reset();
  if (n > 0 && plugin.calls(kind) >= n && !o.fired) o.text = "released";
  return o;
}

// A capture may fail and the call go on without a graph, and a stream that holds nothing may fail to be
// synchronised; anything else that fails is heard of.
void check_failure(const Outcome& o, bool recovers, const std::vector<float>& right) {
  if (recovers && o.status == DPI_OK) {
    CHECK(identical(o.scores, right));
    return;
  }
  CHECK(o.status != DPI_OK);
  CHECK(o.text.find("injected fault") != std::string::npos);
}

bool is(const char* a, const char* b) { return std::strcmp(a, b) == 0; }

bool may_recover(const char* kind, const How& how) {
  if (is(kind, "sync")) return true;
  return is(how.graphs, "on") &&
         (is(kind, "capture") || is(kind, "launch") || is(kind, "event") || is(kind, "copy"));
}

void walk_whole_runs(const How& how) {
  const Plugin plugin;
  const Outcome right = whole_run(how);
  REQUIRE_MESSAGE(right.status == DPI_OK, right.text);
  CHECK((right.graphs > 0) == is(how.graphs, "on"));
  const std::string alive = plugin.alive();
  for (const char* kind : kinds()) {
    for (int64_t n = 1;; ++n) {
      const Outcome o = whole_run(how, kind, n);
      const std::string what = text_of(how) + fault(kind, n);
      CAPTURE(what);
      CHECK(plugin.alive() == alive);
      CHECK(plugin.last_code() == 0);  // nothing is left for a later call to find
      if (o.fired) {
        check_failure(o, may_recover(kind, how), right.scores);
        continue;
      }
      CHECK(identical(o.scores, right.scores));
      if (o.text != "released") break;
    }
  }
}

TEST_CASE("fault: any failing call while a model is loaded, scores for the first time and is released") {
  walk_whole_runs({"fx_dcn", "on", "on"});
  walk_whole_runs({"fx_dcn", "off", "off"});
  walk_whole_runs({"dt_wdl_max", "on", "off"});
}

void walk_predicts(const How& how) {
  const Plugin plugin;
  ModelPtr model;
  REQUIRE(load_model(how, &model).status == DPI_OK);
  const OneHotRows request(model.get(), kRows);
  std::vector<float> right;
  for (int i = 0; i < kFirstPredicts; ++i) right = predict(model.get(), request).scores;
  const std::string alive = plugin.alive();
  for (const char* kind : kinds()) {
    for (int64_t n = 1, fired = 1; fired != 0; ++n) {
      const std::string what = text_of(how) + fault(kind, n);
      CAPTURE(what);
      REQUIRE(plugin.fail(fault(kind, n).c_str()));
      const Outcome o = predict(model.get(), request);
      fired = plugin.calls(kind) >= n ? 1 : 0;
      CHECK(plugin.last_code() == 0);
      REQUIRE(plugin.fail(nullptr));
      const Outcome next = predict(model.get(), request);
      CHECK_MESSAGE(next.status == DPI_OK, next.text);
      CHECK(identical(next.scores, right));
      CHECK(plugin.alive() == alive);
      if (fired != 0) check_failure(o, false, right);
    }
  }
}

TEST_CASE("fault: after any failing call of a predict the next one gives the right scores") {
  walk_predicts({"fx_dcnv2_parallel", "on", "off"});
  walk_predicts({"fx_dcnv2_parallel", "off", "off"});
  walk_predicts({"fx_dcnv2_parallel", "off", "on"});
#ifdef DPI_MEASURE
  walk_predicts({"fx_dcnv2_parallel", "on", "on", "in_place"});
  walk_predicts({"fx_dcnv2_parallel", "off", "on", "in_place"});
#endif
}

TEST_CASE("fault: a capture that failed is told by the next management call") {
  const Plugin plugin;
  const EnvPtr env = make_env();
  Heard heard;
  heard.listen(env.get(), DPI_LOG_WARN);
  const OptionsPtr o =
      options({{"device", "cuda_emu"}, {"max_rows", "8"}, {"max_contexts", "1"}, {"small_batch", "off"}});
  REQUIRE(dpi_options_set_env(o.get(), env.get(), nullptr) == DPI_OK);
  dpi_model* m = nullptr;
  REQUIRE(dpi_model_load(bundle("fx_dcn").c_str(), o.get(), &m, nullptr) == DPI_OK);
  const ModelPtr model(m);
  const OneHotRows request(m, kRows);
  const std::vector<float> right = predict(m, request).scores;
  REQUIRE(plugin.fail(fault("capture", 2).c_str()));
  CHECK(identical(predict(m, request).scores, right));  // the call that captures
  REQUIRE(plugin.calls("capture") >= 2);
  REQUIRE(plugin.fail(nullptr));
  CHECK(heard.count() == 0);
  const std::string info = json_text(dpi_model_info_json, m);
  CHECK(info.find("\"on\":true") != std::string::npos);  // the shape's next call tries again
  CHECK(info.find("injected fault") != std::string::npos);
  const std::string told = heard.find("graphs", "injected fault", DPI_LOG_WARN);
  CHECK(told.find("op by op") != std::string::npos);
  CHECK(told.find("debug.graphs=off") != std::string::npos);
  static_cast<void>(json_text(dpi_model_info_json, m));
  CHECK(heard.count() == 1);
}

TEST_CASE("fault: specifications that are not understood are refused") {
  const Plugin plugin;
  for (const char* bad : {"launch", "launch:1", "launch:0:719", "launch:1:0", "launch:x:719", "lunch:1:719",
                          "launch:1:719x", "launch:1:719,,"})
    CHECK_MESSAGE(!plugin.fail(bad), bad);
  CHECK(plugin.fail("launch:1:719,copy:2:1"));
  CHECK(plugin.calls("lunch") == -1);
}

}  // namespace
}  // namespace dpi::test::fault_test
