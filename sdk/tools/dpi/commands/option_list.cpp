#include "sdk/tools/dpi/commands/option_list.hpp"

#include <algorithm>
#include <cstdio>

#include "runtime/options/options.hpp"
#include "sdk/tools/dpi/shared/command_error.hpp"
#include "sdk/tools/dpi/shared/terminal.hpp"

namespace dpi::tool {

std::string option_help(std::string_view key) {
  const auto all = option_texts();
  const auto& o = *std::find_if(all.begin(), all.end(), [key](const OptionText& t) { return t.key == key; });
  return std::string(o.values) + " (default " + o.fallback + "): " + o.clause;
}

int print_options() {
  for (const OptionText& o : option_texts())
    print_line(stdout, "%-21s  %-24s  %-8s  %s", o.key, o.values, o.fallback, o.clause);
  return kExitOk;
}

}  // namespace dpi::tool
