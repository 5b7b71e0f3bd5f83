#include "sdk/tools/dpi/shared/provenance.hpp"

#include <nlohmann/json.hpp>

namespace dpi::tool {

std::set<std::string> held_to_themselves(const std::string& provenance) {
  std::set<std::string> out;
  if (provenance.empty()) return out;
  const auto j = nlohmann::json::parse(provenance);
  const auto marks = j.find("encoders_held_to");
  if (marks == j.end() || !marks->is_object()) return out;
  for (const auto& [name, by] : marks->items()) {
    if (by == "exporter") out.insert(name);
  }
  return out;
}

}  // namespace dpi::tool
