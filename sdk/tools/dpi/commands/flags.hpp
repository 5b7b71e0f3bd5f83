// How one asks for a command: its flags, their limits, its help.
#pragma once

#include <functional>

namespace dpi::tool {

using Command = std::function<int()>;

/// The command that the arguments ask for. Empty when help or an error about the arguments was shown; then
/// *exit_code is the program's exit code.
Command parse_command_line(int argc, char** argv, int* exit_code);

}  // namespace dpi::tool
