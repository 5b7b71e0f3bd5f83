// Texts about options of models, from options.def.
#pragma once

#include <string>
#include <string_view>

namespace dpi::tool {

/// "0 ... 8 (default 3): chunks of one call": the help of a flag that sets the option `key`.
std::string option_help(std::string_view key);

/// All options in columns, as dpi.h lists them. Returns the exit status.
int print_options();

}  // namespace dpi::tool
