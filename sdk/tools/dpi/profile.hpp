// Time per op of a model's plan, measured inside the engine (the C API carries no such thing).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "command.hpp"
#include "synthetic_rows.hpp"

namespace dpi::tool {

/// Runs `rows` for about `seconds` on one context: {"ops": [{"op", "kind", "implementation", "us_per_call",
/// "share"}], slowest first, "timeline": of the last call, null where ops run on the caller's clock:
/// {"total_us", "all_streams_started_us", "overlap_us", "start_order", "ops": [{"op", "stream", "start_us",
/// "end_us"}]}}.
nlohmann::ordered_json profile_ops(const std::string& bundle, const CommonFlags& flags,
                                   const SyntheticRows& rows, double seconds);

}  // namespace dpi::tool
