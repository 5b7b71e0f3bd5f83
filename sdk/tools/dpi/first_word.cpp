#include "first_word.hpp"

#include <algorithm>
#include <string>

#include "base/text.hpp"
#include "command.hpp"

namespace dpi::tool {

void check_command(std::span<const std::string_view> commands, int argc, char** argv) {
  std::string known;
  for (const std::string_view name : commands) known += (known.empty() ? "" : ", ") + std::string(name);
  if (argc < 2) throw CommandError(kExitUsage, "a command is required: " + known + "; dpi --help says more");
  const std::string_view word = argv[1];
  if (word.starts_with('-') || std::find(commands.begin(), commands.end(), word) != commands.end()) return;
  throw CommandError(kExitUsage,
                     "no command " + in_quotes(word) + did_you_mean(word, commands) + "; known: " + known);
}

}  // namespace dpi::tool
