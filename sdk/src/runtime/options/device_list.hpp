// Options that name devices: `device=cuda:2`, `devices=0,1`, `store.peer_devices=0,1,2,3`. Used by
// options.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace dpi {

struct DeviceName {
  std::string kind;    // "" = not said
  int32_t index = -1;  // -1 = not said
};

/// "cuda:2", "cuda" or "2". Of a backend in host memory there is one device, so it has no number.
Status parse_device(std::string_view text, DeviceName* out);

/// Numbers with commas, each perhaps with its kind: all of one kind, which is given back. twice: a device may
/// be named more than once.
struct DeviceList {
  std::string kind;  // "" = not said
  std::vector<int32_t> indexes;
};
Status parse_devices(std::string_view text, bool twice, DeviceList* out);

/// "0,1"
std::string device_text(const std::vector<int32_t>& indexes);

}  // namespace dpi
