// Options by key and value, each refused or kept; then a load with whatever was kept, and one prediction.
// Lines of an input are `key=value`; a NUL ends a text early, as it does in C.
#include <algorithm>
#include <string>
#include <vector>

#include "fuzz/target.hpp"
#include "support/handles.hpp"
#include "support/some_rows.hpp"
#include "support/source_dir.hpp"

namespace dpi::fuzz {
namespace {

constexpr size_t kMostMemory = size_t{32} << 20;

void load(dpi_options* options) {
  MemoryBudget budget{kMostMemory};
  {
    const Owned<dpi_env> env = make_env(&budget);
    expect(dpi_options_set_env(options, env.get(), nullptr) == DPI_OK, "an environment can be set");
    Error error;
    dpi_model* loaded = nullptr;
    const std::string path = test::source_dir() + "/tests/bundle/data/small.h5";
    const dpi_status s = dpi_model_load(path.c_str(), options, &loaded, &error);
    expect_documented(s, error);
    const Owned<dpi_model> model(loaded);
    if (s == DPI_OK) {
      mark_loaded();
      (void)text_of([&](char* buf, size_t cap) { return dpi_model_info_json(model.get(), buf, cap); });
      const SomeRows rows(model.get(), 9, 1);
      std::vector<float> out(9);
      const dpi_status p = dpi_predict(model.get(), &rows.batch, out.data(), out.size(), nullptr, &error);
      expect_documented(p, error);
      if (p == DPI_OK) mark_predicted();
    }
  }
  expect(budget.taken == 0, "every block came back");
}

void run(InputBytes bytes) {
  const Owned<dpi_options> options(dpi_options_create());
  std::string text(bytes.begin(), bytes.end());
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    const size_t sign = line.find('=');
    const std::string key = line.substr(0, sign),
                      value = sign == std::string::npos ? "" : line.substr(sign + 1);
    Error error;
    const dpi_status s = dpi_options_set(options.get(), key.c_str(), value.c_str(), &error);
    expect_documented(s, error);
    expect(s == DPI_OK || s == DPI_E_NOT_FOUND || s == DPI_E_INVALID_ARGUMENT || s == DPI_E_UNSUPPORTED,
           "an option is kept, unknown or of a bad value");
    if (s == DPI_OK)
      expect(dpi_options_set(options.get(), key.c_str(), value.c_str(), nullptr) == DPI_OK, "twice too");
    at = end + 1;
  }
  set(options.get(), "threads", "2");  // as many would be started as it says
  load(options.get());
}

}  // namespace

const Target kOptionsTarget{"options", run, nullptr};

}  // namespace dpi::fuzz
