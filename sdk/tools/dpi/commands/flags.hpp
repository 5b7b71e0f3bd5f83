// How one asks for a command: its flags, their limits, its help.
#pragma once

#include <functional>

namespace dpi::tool {

using Command = std::function<int()>;

/// What the arguments ask for. Empty: help was shown, or what is wrong with them, and *exit_code is how the
/// program ends.
Command parse_command_line(int argc, char** argv, int* exit_code);

}  // namespace dpi::tool
