// The controls of the emulated devices under a test of the engine, and what is allocated on them.
#pragma once

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include "backend/abi/registry.hpp"
#include "kernels/emu/control.hpp"

namespace dpi::test {

/// The functions of the plugin that the library opens.
struct EmuControl {
  void* library = nullptr;
  decltype(&dpi_emu_fail) fail = nullptr;
  decltype(&dpi_emu_calls) calls = nullptr;
  decltype(&dpi_emu_live) live = nullptr;
  decltype(&dpi_emu_device_bytes) device_bytes = nullptr;
  decltype(&dpi_emu_kernels) kernels = nullptr;
  decltype(&dpi_emu_delay) delay = nullptr;
  decltype(&dpi_emu_seed) seed = nullptr;

  EmuControl() {
    for (const backend::BackendReport& r : backend::list_backends("")) {
      if (r.name == "cuda_emu") library = dlopen(r.path.c_str(), RTLD_NOW | RTLD_LOCAL);
    }
    REQUIRE_MESSAGE(library != nullptr, "no plugin of the emulated device");
    find("dpi_emu_fail", &fail);
    find("dpi_emu_calls", &calls);
    find("dpi_emu_live", &live);
    find("dpi_emu_device_bytes", &device_bytes);
    find("dpi_emu_kernels", &kernels);
    find("dpi_emu_delay", &delay);
    find("dpi_emu_seed", &seed);
  }
  ~EmuControl() {
    fail(nullptr);
    for (int d = 0; d < 16; ++d) delay(d, 0);
    dlclose(library);
  }
  EmuControl(const EmuControl&) = delete;

  /// Equal texts: as much is alive.
  std::string alive() const {
    DpiEmuLive n{};
    live(&n);
    std::string text;
    for (const int64_t count : {n.device_blocks, n.device_bytes, n.pinned_blocks, n.streams, n.events,
                                n.graphs, n.pieces, n.ranges})
      text += std::to_string(count) + ' ';
    return text;
  }

 private:
  template <class F>
  void find(const char* name, F* out) {
    *out = reinterpret_cast<F>(dlsym(library, name));
    REQUIRE_MESSAGE((*out != nullptr), name);
  }
};

/// A variable of the environment while this lives.
struct Setting {
  const char* name;
  Setting(const char* variable, const char* value) : name(variable) { setenv(name, value, 1); }
  ~Setting() { unsetenv(name); }
  Setting(const Setting&) = delete;
};

}  // namespace dpi::test
