// The flags that every command has which plans or runs a model.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace dpi::tool {

/// --device, --precision, --threads, --option: the same on every command that plans or runs a model.
struct CommonFlags {
  std::string device;
  std::string precision;
  int threads = 0;
  std::vector<std::string> options;  // key=value

  /// All as (key, value) in the order given.
  std::vector<std::pair<std::string, std::string>> pairs() const;
};

}  // namespace dpi::tool
