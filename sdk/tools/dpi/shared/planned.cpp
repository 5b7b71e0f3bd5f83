#include "sdk/tools/dpi/shared/planned.hpp"

#include "graph/bundle_params.hpp"
#include "sdk/tools/dpi/shared/loaded_model.hpp"

namespace dpi::tool {

ModelOptions parse_options(const CommonFlags& flags) {
  ModelOptions options;
  for (const auto& [key, value] : flags.pairs()) {
    const Status status = set_option(&options, key, value);
    if (!status.ok()) throw CommandError(kExitUsage, status.message());
  }
  return options;
}

std::unique_ptr<Bundle> open_bundle(const std::string& path, const ModelOptions& options) {
  return take(Bundle::open(path, {options.require_signature, false, {}}));
}

Graph graph_of(Bundle* bundle) {
  BundleParams params(*bundle);
  auto graph = build_graph(bundle->manifest(), params);
  if (!graph.ok()) check(std::move(graph).status().within(bundle->name()), true);
  return std::move(graph).value();
}

}  // namespace dpi::tool
