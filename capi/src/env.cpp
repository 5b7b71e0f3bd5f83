// The environment: what models share. NULL stands for the process's own.
#include "base/environment.hpp"

#include "handles.hpp"

using dpi::Environment;
using dpi::Status;
using dpi::capi::guard;

namespace {

Environment& environment_of(dpi_env* env) {
  return env != nullptr ? *env->environment : *Environment::process();
}

}  // namespace

extern "C" {

dpi_status dpi_env_create(dpi_env** out, dpi_error* error) noexcept {
  return guard(error, [&]() -> Status {
    if (out == nullptr) return dpi::invalid_argument("out is null");
    auto env = std::make_unique<dpi_env>();
    env->environment = Environment::create();
    *out = env.release();
    return {};
  });
}

void dpi_env_free(dpi_env* env) noexcept { delete env; }

dpi_status dpi_env_set(dpi_env* env, const char* key, const char* value, dpi_error* error) noexcept {
  return guard(error, [&]() -> Status {
    if (key == nullptr || value == nullptr) return dpi::invalid_argument("key or value is null");
    return environment_of(env).set(key, value);
  });
}

dpi_status dpi_env_set_memory(dpi_env* env, const dpi_memory_hooks* hooks, dpi_error* error) noexcept {
  return guard(error, [&]() -> Status {
    dpi_memory_hooks h{};
    if (hooks != nullptr) {
      DPI_RETURN_IF_ERROR(
          dpi::capi::read_struct(hooks, "dpi_memory_hooks", dpi::capi::kMemoryHooks10, sizeof h, &h));
      if (h.flags != 0)
        return {dpi::Code::kVersion, "dpi_memory_hooks.flags has bits this library does not know"};
      if (h.alloc == nullptr || h.free == nullptr)
        return dpi::invalid_argument("dpi_memory_hooks needs both alloc and free");
    }
    environment_of(env).set_memory({h.alloc, h.free, h.user});
    return {};
  });
}

dpi_status dpi_env_set_log(dpi_env* env, dpi_log_fn callback, void* user, int32_t min_level,
                           dpi_error* error) noexcept {
  return guard(error, [&]() -> Status {
    if (min_level < DPI_LOG_DEBUG || min_level > DPI_LOG_OFF)
      return dpi::invalid_argument("min_level is " + std::to_string(min_level) +
                                   ", expected DPI_LOG_DEBUG to DPI_LOG_OFF");
    environment_of(env).log().set_callback(callback, user, static_cast<dpi::LogLevel>(min_level));
    return {};
  });
}

size_t dpi_env_poll_log(dpi_env* env, char* buf, size_t cap, int32_t* level) noexcept {
  if (cap > 0 && buf != nullptr) buf[0] = '\0';
  try {
    std::string text;
    auto found = dpi::LogLevel::kOff;
    if (!environment_of(env).log().poll(buf != nullptr && cap > 0, &text, &found)) return 0;
    if (level != nullptr) *level = static_cast<int32_t>(found);
    return dpi::capi::give_text(text, buf, cap);
  } catch (...) {
    return 0;
  }
}

}  // extern "C"
