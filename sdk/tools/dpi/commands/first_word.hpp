#pragma once

#include <span>
#include <string_view>

namespace dpi::tool {

/// Refuses what CLI11 would read past or take for something else: a command line without a command, a first
/// word that is none of `commands`, a word behind delta or store that is none of theirs, an empty word, a
/// flag without the value behind its =, and a list with an empty element. Throws CommandError.
void check_command_line(std::span<const std::string_view> commands, int argc, char** argv);

}  // namespace dpi::tool
