#pragma once

#include <span>
#include <string_view>

namespace dpi::tool {

/// Refuses a command line without a command, or whose first word is none of `commands`: CLI11 would take the
/// words behind it as what is wrong. Throws CommandError.
void check_command(std::span<const std::string_view> commands, int argc, char** argv);

}  // namespace dpi::tool
