#pragma once

#include <span>
#include <string_view>

namespace dpi::tool {

/// Refuses a command line without a command, or whose first word is none of `commands`: CLI11 would take the
/// words behind it as what is wrong. Throws CommandError.
void check_command(std::span<const std::string_view> commands, int argc, char** argv);

/// Refuses what CLI11 would read past: an empty word, a flag without the value behind its =, and a list with
/// an empty element. Throws CommandError.
void check_words(int argc, char** argv);

}  // namespace dpi::tool
