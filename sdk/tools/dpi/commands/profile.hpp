// Time per op of a model's plan, measured inside the engine (the C API carries no such thing).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "sdk/tools/dpi/commands/synthetic_rows.hpp"
#include "sdk/tools/dpi/shared/common_flags.hpp"

namespace dpi::tool {

/// Runs the batches of `pool` in turn, all of one size (on a device with a clock of its own at most a chunk)
/// for about `seconds` on one context:
/// {"rows", "calls", "us_per_call": of the whole call, "explained": which share of it some op was running,
/// "ops":
/// [{"op", "kind", "implementation", "us_per_call", "share": of the whole call}], slowest first, "timeline":
/// of the last call, null where ops run on the caller's clock: {"total_us", "all_streams_started_us",
/// "overlap_us", "start_order", "ops": [{"op", "stream", "start_us", "end_us"}]}}. Times are medians over the
/// calls. Shares add up to `explained` where ops do not overlap; what is left is checking, packing, copies
/// and waiting.
nlohmann::ordered_json profile_ops(const std::string& bundle, const CommonFlags& flags,
                                   const std::vector<SyntheticRows>& pool, double seconds);

}  // namespace dpi::tool
