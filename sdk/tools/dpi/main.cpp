// The program `dpi`: looks into bundles, shows plans, scores CSV files, checks and measures.
#include <dpi/dpi.h>

#include <cstdio>
#include <exception>
#include <new>
#include <nlohmann/json.hpp>

#include "sdk/tools/dpi/commands/command.hpp"
#include "sdk/tools/dpi/commands/flags.hpp"
#include "sdk/tools/dpi/shared/terminal.hpp"

namespace dpi::tool {

int print_version(bool as_json) {
  const auto info = nlohmann::ordered_json::parse(dpi_build_info_json(), nullptr, false);
  if (info.is_discarded()) throw CommandError(kExitOther, "the build's description cannot be read");
  if (as_json) {
    print_json(stdout, info);
    return kExitOk;
  }
  print_line(stdout, "dpi %s", info.value("version", "?").c_str());
  for (const auto& [key, value] : info.items()) {
    if (key != "version")
      print_line(stdout, "  %-14s %s", key.c_str(),
                 value.is_string() ? value.get<std::string>().c_str() : value.dump().c_str());
  }
  return kExitOk;
}

}  // namespace dpi::tool

int main(int argc, char** argv) {
  using namespace dpi::tool;
  try {
    int code = kExitOk;
    if (const Command run = parse_command_line(argc, argv, &code)) code = run();
    check_stdout();
    return code;
  } catch (const CommandError& e) {
    print_line(stderr, "dpi: %s", e.what());
    return e.code();
  } catch (const std::bad_alloc&) {
    print_line(stderr, "dpi: out of memory");
    return kExitDevice;
  } catch (const std::exception& e) {
    print_line(stderr, "dpi: unexpected failure: %s", e.what());
    return kExitOther;
  }
}
