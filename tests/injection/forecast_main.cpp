// What a model really takes against what was forecast for it, and against what it says it holds: the most
// bytes alive, host and device together, while every demo and op bundle is loaded, warmed up and scores
// several chunks. The forecast is never below, and above by no more than a stated margin. At a memory_limit
// of the forecast a model loads; one byte below it is refused with a text that names limit, amount and what
// takes most, and nothing stays allocated.
//
//   forecast_test [--device=cpu]
//
// With DPI_PARTS in the environment it prints what each forecast is made of.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string_view>
#include <vector>

#include "injection/hot_list.hpp"
#include "injection/stage.hpp"
#include "support/full.hpp"
#include "support/source_dir.hpp"

namespace dpi::test {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kRows = 64;
constexpr double kFactor = 1.25;               // the forecast is at most this times what was measured
constexpr int64_t kMargin = int64_t{3} << 19;  // and this: 1.5 MiB

// What a model does not count as held: its description, and of each flight so much: its ops' operands,
// counters and histograms of its context.
constexpr int64_t kFlightApart = int64_t{72} << 10;

int g_wrong = 0;

void check(bool ok, const std::string& what) {
  if (ok) return;
  ++g_wrong;
  std::printf("  WRONG %s\n", what.c_str());
}

struct Setting {
  std::string device;
  const char* precision;
  const char* contexts;
  const char* host_bytes = "0";  // of the host tier; all tables that can be are in it
  std::string hot_keys;          // a list that names every row of the tables, "" = none
  const char* scratch = "0";     // of a chunk's values: with little, flights have several memory plans
};

/// Options of one load, and a model of it.
struct Loaded {
  dpi_env* env = nullptr;
  dpi_options* options = nullptr;
  dpi_model* model = nullptr;
  dpi_error error = DPI_ERROR_INIT;

  Loaded(const Setting& s, const std::string& limit) {
    need(dpi_env_create(&env, nullptr) == DPI_OK, "an environment");
    options = dpi_options_create();
    need(dpi_options_set_env(options, env, nullptr) == DPI_OK, "options");
    const std::pair<const char*, std::string> all[] = {{"device", s.device},
                                                       {"precision", s.precision},
                                                       {"max_rows", std::to_string(kRows)},
                                                       {"max_nnz", "4096"},
                                                       {"max_contexts", s.contexts},
                                                       {"memory_limit", limit},
                                                       {"scratch_bytes", s.scratch},
                                                       {"store.host_bytes", s.host_bytes},
                                                       {"store.resident_bytes", "0"},
                                                       {"store.hot_keys", s.hot_keys}};
    for (const auto& [key, value] : all)
      need(dpi_options_set(options, key, value.c_str(), nullptr) == DPI_OK, key);
    if (s.device == "cuda_emu" && !full_run())  // it is slow: the calls below fill two flights
      need(dpi_options_set(options, "in_flight", "2", nullptr) == DPI_OK, "in_flight");
  }
  ~Loaded() {
    dpi_model_free(model);
    dpi_options_free(options);
    dpi_env_free(env);
  }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;
  dpi_status load(const std::string& path) { return dpi_model_load(path.c_str(), options, &model, &error); }
};

/// Of the model's memory.
int64_t field(const dpi_model* m, const std::string& name) {
  static char text[1 << 20];
  need(dpi_model_info_json(m, text, sizeof text) < sizeof text, "room for the description");
  const char* const memory = std::strstr(text, "\"memory\":");
  need(memory != nullptr, "its memory");
  const char* const at = std::strstr(memory, ("\"" + name + "\":").c_str());
  need(at != nullptr, name.c_str());
  return std::strtoll(at + name.size() + 3, nullptr, 10);
}

/// The most bytes while a model is loaded, warmed up and used; *forecast what was said of it.
int64_t measure(const Setting& s, const std::string& path, int64_t* forecast) {
  // On the emulated device, which is slow, no more chunks than are in flight at once.
  const int64_t rows_of_all = (s.device == "cuda_emu" && !full_run() ? 2 : 4) * kRows;
  Request rows;
  std::vector<float> out;
  {
    Loaded shape(s, "0");
    need(shape.load(path), shape.error);
    rows.make(shape.model, rows_of_all);
  }
  Loaded m(s, "0");
  const int64_t before = alive().bytes;
  restart_peak();
  need(m.load(path), m.error);
  need(dpi_model_warm_up(m.model, rows_of_all, &m.error), m.error);
  need(dpi_predict(m.model, &rows.batch, rows.out.data(), rows.out.size(), nullptr, &m.error), m.error);
  const int64_t measured = peak_bytes() - before;
  const int64_t now = alive().bytes - before;
  const int64_t held = field(m.model, "held_host_bytes") + field(m.model, "held_device_bytes");
  const int64_t flights =
      (field(m.model, "contexts") + field(m.model, "parked_contexts")) * field(m.model, "in_flight");
  const int64_t apart = field(m.model, "model_bytes") + flights * kFlightApart;
  check(held <= now, path + ": it says it holds " + std::to_string(held) + " of " + std::to_string(now));
  check(now - held <= apart, path + ": it says it holds " + std::to_string(held) + " of " +
                                 std::to_string(now) + ", and what it does not count is at most " +
                                 std::to_string(apart));
  *forecast = field(m.model, "most_bytes");
  if (std::getenv("DPI_PARTS") != nullptr) {
    for (const char* part :
         {"packed_weight_bytes", "encoder_bytes", "model_bytes", "flight_bytes", "loading_bytes"})
      std::printf("    %s %lld\n", part, static_cast<long long>(field(m.model, part)));
  }
  return measured;
}

void check_limit(const Setting& setting, const std::string& path, int64_t forecast) {
  for (int i = 0; i < 2; ++i) {  // the first time brings along what is kept
    Loaded refused(setting, std::to_string(forecast - 1));
    const Alive before = alive();
    const dpi_status s = refused.load(path);
    check(s == DPI_E_OUT_OF_MEMORY, path + ": one byte below the forecast gives " + dpi_status_name(s));
    const int64_t left = alive().blocks - before.blocks;
    const std::string text = refused.error.message;
    for (const std::string& part : {std::string("memory_limit"), std::to_string(forecast) + " bytes",
                                    std::to_string(forecast - 1) + " bytes", std::string("most of it for ")})
      check(text.find(part) != std::string::npos, "'" + part + "' is not in: " + text);
    check(i == 0 || left <= 0, path + ": " + std::to_string(left) + " blocks stay of a refused load");
  }
  Loaded allowed(setting, std::to_string(forecast));
  check(allowed.load(path) == DPI_OK, path + ": at the forecast: " + allowed.error.message);
}

void check_bundle(const Setting& setting, const std::string& path) {
  int64_t forecast = 0;
  const int64_t measured = measure(setting, path, &forecast);
  std::printf("%-16s %s, %s contexts, a tier of %s: measured %9lld, forecast %9lld, %.2f times\n",
              fs::path(path).stem().c_str(), setting.precision, setting.contexts, setting.host_bytes,
              static_cast<long long>(measured), static_cast<long long>(forecast),
              static_cast<double>(forecast) / static_cast<double>(measured));
  check(forecast >= measured, path + ": the forecast is too low");
  check(static_cast<double>(forecast) <= kFactor * static_cast<double>(measured) + kMargin,
        path + ": the forecast is too high");
  check_limit(setting, path, forecast);
}

/// What a bundle is measured with. On the emulated device an ordinary run measures further contexts, tiers
/// and short floats where they make a difference: in bundles with tables and layers. The ops alone have
/// neither.
bool is_measured(const Setting& s, const std::string& folder) {
  return s.device != "cuda_emu" || full_run() || folder == "/weights/demo" ||
         (std::string(s.precision) == "fp32" && std::string(s.contexts) == "1");
}

int run(const std::string& device) {
  if (!can_inject()) {
    std::printf("skipped: malloc belongs to the sanitizer\n");
    return 77;
  }
  std::vector<Setting> settings = {{device, "fp32", "1", "0", ""}};
  if (device != "cuda_emu") settings.push_back({device, "fp32", "3", "0", ""});  // it is slow
  const std::string hot_keys = fs::temp_directory_path() / ("dpi_forecast_" + std::to_string(getpid()));
  const bool slow = device == "cuda_emu" && !full_run();  // many small chunks are
  settings.push_back({device, "fp32", "3", "1000000", "", slow ? "0" : "40000"});
  if (device != "cuda_emu") settings.push_back({device, "fp32", "1", "120000", hot_keys});
  if (device == "cuda_emu") settings.push_back({device, "fp16", "1", "0", ""});
  if (device == "cpu") settings.push_back({device, "bf16", "1", "0", ""});
  if (device == "cpu") settings.push_back({device, "int8", "1", "0", ""});
  for (const char* folder : {"/weights/demo", "/tests/e2e/op_bundles"}) {
    for (const auto& entry : fs::directory_iterator(source_dir() + folder)) {
      if (entry.path().extension() != ".h5") continue;
      for (const Setting& setting : settings) {
        if (!is_measured(setting, folder)) continue;
        if (!setting.hot_keys.empty()) {
          // a list without keys is refused
          if (Bundle::open(entry.path().string()).value()->manifest().tables.empty()) continue;
          list_all_rows(setting.hot_keys, entry.path().string());
        }
        check_bundle(setting, entry.path().string());
      }
    }
  }
  fs::remove(hot_keys);
  return g_wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace dpi::test

int main(int argc, char** argv) {
  std::string device = "ref";
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg.starts_with("--device=")) device = arg.substr(9);
  }
  return dpi::test::run(device);
}
