// Environments, options, loading, and what asks the library about itself.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/capi_state.hpp"
#include "support/source_dir.hpp"

namespace dpi::fuzz {
namespace {

struct KnownOption {
  const char* key;
  std::string_view values;  // as options.def names them: "a | b", "1 ... 8", "bytes"
};
constexpr KnownOption kOptions[] = {
#define DPI_OPTION(key, values, ...) {key, values},
#define DPI_TABLE_OPTION(key, values, ...) {key, values},
#include "runtime/options/options.def"
#undef DPI_OPTION
#undef DPI_TABLE_OPTION
    {"none.such", ""}, {"", ""}};
/// Values that are no word of options.def.
constexpr const char* kOtherValues[] = {"0",
                                        "1",
                                        "2",
                                        "8",
                                        "64",
                                        "1000",
                                        "-1",
                                        "1e3",
                                        "",
                                        "/",
                                        "lookup",
                                        "merge,tail",
                                        "99999999999999999999",
                                        "\xff\x01"};

constexpr const char* kTable = "tags";  // of most of the bundles below

/// A word of "a | b", a bound of "1 ... 8": as large a one as a load of milliseconds allows.
std::string own_value(Input* in, std::string_view values) {
  constexpr size_t kMostDigits = 3;
  std::vector<std::string> words;
  for (size_t at = 0; at <= values.size();) {
    const size_t bar = std::min(values.find(" | ", at), values.size());
    words.emplace_back(values.substr(at, bar - at));
    at = bar + 3;
  }
  if (const size_t to = values.find(" ..."); to != std::string_view::npos) {
    words = {std::string(values.substr(0, to))};
    const std::string_view upper = values.substr(std::min(to + 5, values.size()));
    if (!upper.empty() && upper.size() <= kMostDigits) words.emplace_back(upper);
  }
  return words[in->below(words.size())];
}

void on_log(void* user, int32_t level, const char* component, const char* message) {
  auto* n = static_cast<uint64_t*>(user);
  ++*n;
  expect(level >= DPI_LOG_DEBUG && level <= DPI_LOG_ERROR, "a message has a level");
  expect(is_printable_line(component) && is_printable_line(message), "a message is a printable line");
}
uint64_t g_messages = 0;

void on_progress(void*, const char* stage, uint64_t done, uint64_t total) {
  expect(is_printable_line(stage) && done <= total, "progress tells of a stage and does not pass its end");
}
const volatile int32_t kGo = 0, kStop = 1;

/// Tiny bundles, so that a load takes a millisecond.
const std::vector<std::string>& bundles() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> out;
    for (const char* path : {"/tests/bundle/data/small.h5", "/tests/e2e/raw_values/data/more_kinds.h5",
                             "/tests/e2e/golden/fx_lr.h5", "/tests/e2e/op_bundles/row_spaces.h5"}) {
      std::ifstream file(test::source_dir() + path, std::ios::binary);
      out.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
      expect(!out.back().empty(), "the tree's bundles can be read");
    }
    return out;
  }();
  return all;
}

/// What keeps a call short whatever the input has set.
void bound(dpi_options* options) {
  for (const auto& [key, value] :
       {std::pair{"max_rows", "8"}, {"max_nnz", "256"}, {"max_contexts", "2"}, {"threads", "1"}})
    set(options, key, value);
}

void damage(Input* in, std::string* bytes) {
  if (in->below(4) != 0) return;
  if (in->below(2) == 0) {
    bytes->resize(in->raw<uint16_t>() % (bytes->size() + 1));
  } else {
    (*bytes)[in->raw<uint16_t>() % bytes->size()] ^= static_cast<char>(1 << in->below(8));
  }
}

}  // namespace

void call_environment(State& s) {
  dpi_env*& env = s.slot(s.envs);
  SizedError error(s.in);
  switch (s.in->below(6)) {
    case 0: {
      dpi_env_free(env);
      env = nullptr;
      error.check(dpi_env_create(&env, error.get()));
      expect(env != nullptr, "an environment is made");
      break;
    }
    case 1:
      dpi_env_free(env);
      env = nullptr;
      break;
    case 2:
      error.check(dpi_env_set(env, s.in->below(2) == 0 ? "threads" : "none", s.in->below(3) == 0 ? "0" : "2x",
                              error.get()));
      break;
    case 3:
      error.check(dpi_env_set_log(env, s.in->below(2) == 0 ? nullptr : on_log, &g_messages,
                                  static_cast<int32_t>(s.in->below(6)), error.get()));
      break;
    case 4: {
      char text[64];
      int32_t level = -1;
      const size_t cap = s.in->below(sizeof text + 1);
      const size_t n = dpi_env_poll_log(env, text, cap, s.in->below(2) == 0 ? &level : nullptr);
      expect(n <= 4096 && (n == 0 || cap == 0 || strnlen(text, cap) < cap),
             "a polled message is NUL-terminated");
      break;
    }
    default: {
      dpi_memory_hooks hooks{};
      hooks.struct_size = odd_struct_size(s.in, sizeof hooks);
      hooks.alloc = s.in->below(8) == 0 ? nullptr : MemoryBudget::alloc;
      hooks.free = MemoryBudget::free;
      hooks.user = s.budget;
      if (env != nullptr) error.check(dpi_env_set_memory(env, &hooks, error.get()));
    }
  }
}

void call_options(State& s) {
  dpi_options*& options = s.slot(s.options);
  SizedError error(s.in);
  switch (s.in->below(6)) {
    case 0:
      dpi_options_free(options);
      options = dpi_options_create();
      expect(options != nullptr, "options are made");
      break;
    case 1: {
      const std::string key = s.in->text(12), value = s.in->text(24);
      error.check(dpi_options_set(options, key.c_str(), value.c_str(), error.get()));
      break;
    }
    case 2:
      error.check(dpi_options_set_env(options, s.slot(s.envs), error.get()));
      break;
    case 3:
      error.check(dpi_options_set_progress(options, s.in->below(3) == 0 ? nullptr : on_progress, nullptr,
                                           s.in->below(3) == 0 ? &kStop : &kGo, error.get()));
      break;
    default: {
      const KnownOption& option = s.in->of(kOptions);
      std::string key = option.key;
      if (const size_t at = key.find("NAME"); at != std::string::npos) key.replace(at, 4, kTable);
      const std::string value = s.in->below(2) == 0 ? own_value(s.in, option.values) : s.in->of(kOtherValues);
      error.check(dpi_options_set(options, s.in->one_in(32) ? nullptr : key.c_str(),
                                  s.in->one_in(32) ? nullptr : value.c_str(), error.get()));
    }
  }
}

void call_load(State& s) {
  ModelSlot& slot = s.slot(s.models);
  while (s.drop(&slot)) {
  }
  dpi_options* options = s.slot(s.options);
  if (options != nullptr && s.in->below(8) != 0) bound(options);
  std::string bytes = bundles()[s.in->below(bundles().size())];
  damage(s.in, &bytes);
  SizedError error(s.in);
  dpi_model* const untouched = reinterpret_cast<dpi_model*>(&slot);
  dpi_model* model = untouched;
  dpi_status status = DPI_OK;
  if (s.in->one_in(16)) {
    const char* paths[] = {nullptr, "", "/", "/none/such", "/proc/self/mem"};
    status = dpi_model_load(s.in->of(paths), options, &model, error.get());
    expect(status != DPI_OK, "there is no bundle at such a path");
  } else {
    // Exactly its bytes: a read past the end is seen.
    const auto exact = std::make_unique<char[]>(bytes.size());
    std::copy(bytes.begin(), bytes.end(), exact.get());
    status = dpi_model_load_memory(exact.get(), bytes.size(), options, &model, error.get());
  }
  error.check(status);
  expect((status == DPI_OK) == (model != untouched), "a handle is given with DPI_OK only");
  if (status == DPI_OK) {
    slot = {model, 1};
    mark_loaded();
  }
}

void call_library(State& s) {
  expect(dpi_version() == DPI_VERSION_NUMBER, "the library is of the header's version");
  expect(is_printable_line(dpi_status_name(static_cast<dpi_status>(s.in->integer()))),
         "every status has a name");
  expect(dpi_build_info_json() == dpi_build_info_json(), "the build's info is static");
  dpi_model_free(nullptr);
  dpi_rows_free(nullptr);
  dpi_context_free(nullptr);
  dpi_options_free(nullptr);
  dpi_env_free(nullptr);
  if (!s.in->one_in(32)) return;
  char text[256];
  const size_t n = dpi_devices_json(s.in->below(2) == 0 ? nullptr : "/none", text, s.in->below(sizeof text));
  expect(n > 2, "the devices are listed");
}

}  // namespace dpi::fuzz
