/// The plugin of the emulated device beside the library under test: where it lies, and what is alive in it.
#pragma once

#include <dlfcn.h>
#include <dpi/dpi.h>

#include <string>

#include "kernels/emu/control.hpp"

namespace dpi::test {

/// Empty when the library's own path is not known.
inline std::string emu_plugin_path() {
  Dl_info sdk{};
  if (dladdr(reinterpret_cast<const void*>(&dpi_model_load), &sdk) == 0) return "";
  const std::string file = sdk.dli_fname;
  return file.substr(0, file.rfind('/')) + "/dpi/backends-1/libdpi_cuda_emu.so";
}

/// Equal texts: as much is alive.
inline std::string emu_alive(decltype(&dpi_emu_live) live) {
  DpiEmuLive n{};
  live(&n);
  std::string text;
  for (const int64_t count :
       {n.device_blocks, n.device_bytes, n.pinned_blocks, n.streams, n.events, n.graphs, n.pieces, n.ranges})
    text += std::to_string(count) + ' ';
  return text;
}

}  // namespace dpi::test
