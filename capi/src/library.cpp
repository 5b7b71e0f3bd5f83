// Functions about the library itself: version, build, devices.
#include "backend/abi/registry.hpp"
#include "base/at_load.hpp"
#include "base/code_name.hpp"
#include "base/own_file.hpp"
#include "handles.hpp"
#include "runtime/describe/library_json.hpp"

namespace {

std::string version_text() {
  return std::to_string(DPI_VERSION_MAJOR) + "." + std::to_string(DPI_VERSION_MINOR) + "." +
         std::to_string(DPI_VERSION_PATCH);
}

std::string build_info() {
  const std::vector<dpi::LinkedLibrary> libraries = {
#include "linked_libraries.inc"  // written by packaging/cmake/DpiThirdParty.cmake
  };
  return dpi::build_info_json(
      {version_text(), dpi::own_file().path, __VERSION__, DPI_BACKEND_ABI, libraries});
}

const std::string& build_text() {
  static const std::string kText = build_info();
  return kText;
}

const dpi::AtLoad g_build_text([] { build_text(); });

}  // namespace

extern "C" {

uint32_t dpi_version(void) noexcept { return DPI_VERSION_NUMBER; }

const char* dpi_build_info_json(void) noexcept {
  try {
    return build_text().c_str();
  } catch (...) {
    return "{}";
  }
}

const char* dpi_status_name(dpi_status status) noexcept {
  return dpi::code_name(static_cast<dpi::Code>(status));
}

size_t dpi_devices_json(const char* backend_dir, char* buf, size_t cap) noexcept {
  if (cap > 0 && buf != nullptr) buf[0] = '\0';
  const dpi::FloatEnvironment standard;
  try {
    const auto reports = dpi::backend::list_backends(backend_dir != nullptr ? backend_dir : "");
    return dpi::capi::give_text(dpi::devices_json(reports), buf, cap);
  } catch (...) {
    return 0;
  }
}

}  // extern "C"
