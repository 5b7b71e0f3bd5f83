#include "sdk/tools/dpi/shared/common_flags.hpp"

#include "sdk/tools/dpi/shared/command_error.hpp"
#include "sdk/tools/dpi/shared/key_file.hpp"

namespace dpi::tool {

std::vector<std::pair<std::string, std::string>> CommonFlags::pairs() const {
  std::vector<std::pair<std::string, std::string>> all;
  if (!device.empty()) all.emplace_back("device", device);
  if (!precision.empty()) all.emplace_back("precision", precision);
  if (threads != 0) all.emplace_back("threads", std::to_string(threads));
  for (const std::string& option : options) {
    const size_t at = option.find('=');
    if (at == std::string::npos)
      throw CommandError(kExitUsage, "--option '" + option + "': expected key=value");
    const std::string key = option.substr(0, at), value = option.substr(at + 1);
    all.emplace_back(key, key == "require_signature" ? read_public_keys(value) : value);
  }
  return all;
}

}  // namespace dpi::tool
