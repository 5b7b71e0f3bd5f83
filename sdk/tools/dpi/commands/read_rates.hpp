// How many threads the reads of a host tier kept busy between two readings of a model's counters, and what
// that asks of store.fetch_threads and store.fetch_queue (packaging/doc/guide/stores.md has the formulas).
#pragma once

#include <nlohmann/json.hpp>

namespace dpi::tool {

/// Null where nothing was read. {"reads", "rows_per_read", "read_us", "reads_per_second", "threads_busy",
/// "fetch_threads", "threads_needed", "limited", "fetch_queue", "waiting_calls", "queue_needed"}. info:
/// dpi_model_info_json. waiting_calls: at most, at once. limited: all threads were busy nearly always, so
/// callers wanted more.
nlohmann::ordered_json read_rates(const nlohmann::json& before, const nlohmann::json& after, double seconds,
                                  const nlohmann::json& info);

/// Lines for a person.
void print_read_rates(const nlohmann::ordered_json& rates);

}  // namespace dpi::tool
