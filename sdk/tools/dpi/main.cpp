// The program `dpi`: looks into bundles, shows plans, scores CSV files, checks and measures.
#include <cstdio>
#include <exception>

#include "command.hpp"

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

}  // namespace

int main(int argc, char** argv) {
  using namespace dpi::tool;
  CLI::App app("DPIFrame: score click-through-rate models", "dpi");
  app.footer(kFooter);
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Help of all commands");
  Command run;
  add_inspect(&app, &run);
  add_plan(&app, &run);
  add_predict(&app, &run);
  add_verify(&app, &run);
  add_bench(&app, &run);
  add_devices(&app, &run);
  try {
    app.parse(argc, argv);
    return run();
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? kExitOk : kExitUsage;
  } catch (const CommandError& e) {
    std::fprintf(stderr, "dpi: %s\n", e.what());
    return e.code();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "dpi: unexpected failure: %s\n", e.what());
    return kExitOther;
  }
}
