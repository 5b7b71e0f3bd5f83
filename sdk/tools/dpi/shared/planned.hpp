// A bundle's graph and plan without its tables: what inspect and plan look at.
#pragma once

#include <memory>

#include "bundle/bundle.hpp"
#include "graph/graph.hpp"
#include "plan/plan.hpp"
#include "runtime/options/options.hpp"
#include "sdk/tools/dpi/shared/common_flags.hpp"

namespace dpi::tool {

/// Options of the flags; a wrong one is a usage error.
ModelOptions parse_options(const CommonFlags& flags);
std::unique_ptr<Bundle> open_bundle(const std::string& path, const ModelOptions& options);
/// Throws with the bundle's name before the text.
Graph graph_of(Bundle* bundle);

}  // namespace dpi::tool
