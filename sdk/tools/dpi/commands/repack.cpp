// `dpi repack`: any HDF5 file of the right contents becomes a bundle.
#include "sdk/tools/dpi/commands/command.hpp"
#include "sdk/tools/dpi/commands/python_package.hpp"

namespace dpi::tool {

int repack(const RepackArgs& args) {
  std::vector<std::string> words = {args.input, args.output};
  if (args.limit > 0) words.insert(words.end(), {"--limit", std::to_string(args.limit)});
  if (!args.key.empty()) words.insert(words.end(), {"--key", args.key});
  if (args.no_golden) words.emplace_back("--no-golden");
  if (args.json) words.emplace_back("--json");
  return run_package(args.python, "repack", words);
}

}  // namespace dpi::tool
