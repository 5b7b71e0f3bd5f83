// How many lookups of tables in the host tier found their row there, and on the GPU, between two readings of
// a model's counters (dpi_model_counters_json).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace dpi::tool {

bool has_tiers(const nlohmann::json& counters);

/// {"host_hit_rate", "device_hit_rate", "lookups", "device_sampled", "tables": [the same with "name"]}: a
/// rate is null where nothing was looked up or sampled. The host's is of all lookups, the GPU's of those
/// sampled.
nlohmann::ordered_json tier_rates(const nlohmann::json& before, const nlohmann::json& after);

/// "    99.2 %  81.0 %", "-" where there is none.
std::string rate_columns(const nlohmann::ordered_json& rates);
/// A line per table.
void print_tier_rates(const nlohmann::ordered_json& rates);

}  // namespace dpi::tool
