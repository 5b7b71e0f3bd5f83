#include "sdk/tools/dpi/commands/first_word.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "base/text.hpp"
#include "sdk/tools/dpi/shared/command_error.hpp"

namespace dpi::tool {

namespace {

constexpr std::array<std::string_view, 3> kDelta = {"make", "show", "apply"};
constexpr std::array<std::string_view, 6> kStore = {"load", "stat", "verify", "update", "drop", "hot-keys"};

/// The first word, or the one behind `group`: "delta ".
void check_command(const std::string& group, std::span<const std::string_view> commands, int argc,
                   char** argv) {
  std::string known;
  for (const std::string_view name : commands) known += (known.empty() ? "" : ", ") + std::string(name);
  const int at = group.empty() ? 1 : 2;
  if (argc <= at)
    throw CommandError(kExitUsage, "a command is required: " + known + "; dpi " + group + "--help says more");
  const std::string_view word = argv[at];
  if (word.starts_with('-') || std::find(commands.begin(), commands.end(), word) != commands.end()) return;
  throw CommandError(kExitUsage, "no command " + in_quotes(group + std::string(word)) +
                                     did_you_mean(word, commands) + "; known: " + known);
}

bool has_empty_element(std::string_view list) {
  return list.starts_with(',') || list.ends_with(',') || list.find(",,") != std::string_view::npos;
}

/// The flag that a word is the value of, if any: --batch of `--batch 1,2` and of `--batch=1,2`.
std::string_view flag_of(std::string_view before, std::string_view word) {
  if (word.starts_with("--")) return word.substr(0, word.find('='));
  return before.starts_with('-') && before.find('=') == std::string_view::npos ? before : std::string_view();
}

void check_words(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const std::string flag(flag_of(argv[i - 1], word));
    if (word.empty() || (word.starts_with("--") && word.find('=') == word.size() - 1))
      throw CommandError(kExitUsage, (flag.empty() ? "argument " + std::to_string(i) : flag) + " is empty");
    const std::string_view value =
        word.substr(word.starts_with("--") ? std::min(flag.size() + 1, word.size()) : 0);
    const bool is_list = flag == "--batch" || flag == "--callers" || flag == "--users";
    if (is_list && value.find_first_not_of("0123456789,") == std::string_view::npos &&
        has_empty_element(value))
      throw CommandError(kExitUsage, flag + ": an element of the list " + in_quotes(value) + " is empty");
  }
}

}  // namespace

void check_command_line(std::span<const std::string_view> commands, int argc, char** argv) {
  check_command("", commands, argc, argv);
  const std::string_view first = argv[1];
  if (first == "delta") check_command("delta ", kDelta, argc, argv);
  if (first == "store") check_command("store ", kStore, argc, argv);
  check_words(argc, argv);
}

}  // namespace dpi::tool
