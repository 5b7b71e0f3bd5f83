#include "support/handles.hpp"

namespace dpi::fuzz {

Owned<dpi_env> make_env(MemoryBudget* budget) {
  dpi_env* env = nullptr;
  expect(dpi_env_create(&env, nullptr) == DPI_OK, "an environment can be made");
  dpi_memory_hooks hooks{};
  hooks.struct_size = sizeof hooks;
  hooks.alloc = MemoryBudget::alloc;
  hooks.free = MemoryBudget::free;
  hooks.user = budget;
  expect(dpi_env_set_memory(env, &hooks, nullptr) == DPI_OK, "hooks can be set");
  return Owned<dpi_env>(env);
}

void set(dpi_options* options, const char* key, const std::string& value) {
  expect(dpi_options_set(options, key, value.c_str(), nullptr) == DPI_OK,
         "an option of the header can be set");
}

dpi_model_info info_of(const dpi_model* model) {
  dpi_model_info info{};
  info.struct_size = sizeof info;
  expect(dpi_model_get_info(model, &info, nullptr) == DPI_OK, "a loaded model has an info");
  return info;
}

dpi_feature_info feature_of(const dpi_model* model, int32_t index) {
  dpi_feature_info info{};
  info.struct_size = sizeof info;
  expect(dpi_model_get_feature(model, index, &info, nullptr) == DPI_OK, "a model has its features");
  return info;
}

}  // namespace dpi::fuzz
