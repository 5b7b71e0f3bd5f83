// The origin of golden rows, as a bundle states it.
#pragma once

#include <set>
#include <string>

namespace dpi::tool {

/// Features whose golden ids of raw cells the exporter made from the encoder itself, so that they say nothing
/// of training. `provenance`: the manifest's, as JSON text; empty where it does not say so.
std::set<std::string> held_to_themselves(const std::string& provenance);

}  // namespace dpi::tool
