// `dpi devices`: what can run models here, and why the rest cannot.
#include <cstdio>
#include <memory>

#include "sdk/tools/dpi/commands/command.hpp"
#include "sdk/tools/dpi/shared/loaded_model.hpp"
#include "sdk/tools/dpi/shared/terminal.hpp"

namespace dpi::tool {

namespace {

// Every plugin is looked for in the same folders.
void print_folders(const nlohmann::ordered_json& all) {
  for (const auto& d : all) {
    if (!d.contains("searched")) continue;
    print_line(stdout, "%s", "");
    print_line(stdout, "plugins are looked for in");
    for (const auto& f : d["searched"]) {
      const std::string problem = f.value("problem", ""), advice = f.value("advice", "");
      print_line(stdout, "  %s (%s)%s%s%s%s", f.value("folder", "").c_str(), f.value("origin", "").c_str(),
                 problem.empty()  ? ""
                 : advice.empty() ? ": "
                                  : ": refused, it ",
                 problem.c_str(), advice.empty() ? "" : "; ", advice.c_str());
    }
    return;
  }
}

}  // namespace

int devices(const DevicesArgs& args) {
  const char* folder = args.backend_dir.empty() ? nullptr : args.backend_dir.c_str();
  std::string text(dpi_devices_json(folder, nullptr, 0), '\0');
  dpi_devices_json(folder, text.data(), text.size());
  if (!text.empty()) text.pop_back();
  const auto all = nlohmann::ordered_json::parse(text, nullptr, false);
  if (all.is_discarded()) throw CommandError(kExitOther, "the list of devices cannot be read");
  if (args.json) {
    print_json(stdout, all);
    return kExitOk;
  }
  for (const auto& d : all) {
    const bool usable = d.value("usable", false);
    const std::string about = usable ? d.value("device", "") : d.value("reason", "");
    print_line(stdout, "%-10s %-9s %s", d.value("backend", "?").c_str(), usable ? "usable" : "refused",
               about.c_str());
  }
  print_folders(all);
  return kExitOk;
}

}  // namespace dpi::tool
