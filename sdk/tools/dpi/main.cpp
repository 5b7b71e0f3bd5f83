// The program `dpi`: looks into bundles, shows plans, scores CSV files, checks and measures.
#include <dpi/dpi.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <new>
#include <nlohmann/json.hpp>
#include <sstream>

#include "command.hpp"
#include "terminal.hpp"

namespace dpi::tool {

std::vector<std::pair<std::string, std::string>> CommonFlags::pairs() const {
  std::vector<std::pair<std::string, std::string>> all;
  if (!device.empty()) all.emplace_back("device", device);
  if (!precision.empty()) all.emplace_back("precision", precision);
  if (threads != 0) all.emplace_back("threads", std::to_string(threads));
  for (const std::string& option : options) {
    const size_t at = option.find('=');
    if (at == std::string::npos)
      throw CommandError(kExitUsage, "--option '" + option + "': expected key=value");
    all.emplace_back(option.substr(0, at), option.substr(at + 1));
  }
  return all;
}

void add_common_flags(CLI::App* app, CommonFlags* flags) {
  app->add_option("--device", flags->device, "ref, cpu, cuda or auto (default auto: the best that works)");
  app->add_option("--precision", flags->precision, "fp32, tf32, fp16 or bf16 (default fp32)");
  app->add_option("--threads", flags->threads, "worker threads for large batches (default 1)")
      ->check(CLI::PositiveNumber);
  app->add_option("--option", flags->options, "any other option of <dpi/dpi.h> as key=value; may be repeated")
      ->allow_extra_args(false);
}

}  // namespace dpi::tool

namespace {

constexpr const char* kFooter = R"(Examples:
  dpi inspect model.h5
  dpi predict model.h5 rows.csv --raw --label clicked --summary
  dpi predict model.h5 rows.csv > scores.csv
  dpi plan model.h5 --dot | dot -Tsvg > plan.svg
  dpi verify model.h5 --device cpu
  dpi bench model.h5 --batch 1,64,1024 --callers 1,2
'dpi COMMAND --help' says more.

Exit status: 0 done; 1 wrong usage; 2 the rows are not what the model takes (the text names file:line:column, column = number of the
cell); 3 the bundle cannot be read or is not supported; 4 verification failed; 5 no such device, or it failed; 6 anything else.)";

int print_version(bool as_json) {
  using namespace dpi::tool;
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

}  // namespace

int main(int argc, char** argv) {
  using namespace dpi::tool;
  CLI::App app("DPIFrame: score click-through-rate models", "dpi");
  app.footer(kFooter);
  app.require_subcommand(0, 1);
  bool version = false, json = false;
  auto* const ask = app.add_flag("--version", version, "Say which program this is, and how it was built");
  app.add_flag("--json", json, "the version as JSON")->needs(ask);
  app.set_help_all_flag("--help-all", "Help of all commands");
  Command run;
  add_inspect(&app, &run);
  add_plan(&app, &run);
  add_predict(&app, &run);
  add_verify(&app, &run);
  add_bench(&app, &run);
  add_devices(&app, &run);
  add_keygen(&app, &run);
  add_sign(&app, &run);
  try {
    app.parse(argc, argv);
    if (version) run = [json] { return print_version(json); };
    if (run == nullptr) throw CLI::RequiredError("a command");
    const int code = run();
    check_stdout();
    return code;
  } catch (const CLI::ParseError& e) {
    std::ostringstream out, err;
    const int code = app.exit(e, out, err);
    print_lines(stdout, out.str());
    print_lines(stderr, err.str());
    return code == 0 ? kExitOk : kExitUsage;
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
