#include "runtime/model/memory_forecast.hpp"

#include <algorithm>
#include <thread>

#include "runtime/request/resolve.hpp"
#include "store/arena_map.hpp"

namespace dpi {

int32_t context_count(const ModelOptions& options) {
  if (options.max_contexts > 0) return options.max_contexts;
  return static_cast<int32_t>(std::clamp(std::thread::hardware_concurrency(), 1u, 1024u));
}

Result<MemoryForecast> forecast_memory(const Plan& plan, const ModelOptions& options, bool on_device,
                                       int64_t alignment) {
  MemoryForecast f;
  std::vector<StoreTable> tables;
  for (const PlanTable& t : plan.tables) {
    tables.push_back({t.name, t.rows, t.dim, t.dtype, t.needs_nonzero, t.ride_with});
  }
  DPI_ASSIGN_OR_RETURN(const ArenaMap map, make_arena_map(tables, on_device));
  f.tables = map.bytes;
  for (const PlanParam& p : plan.params) f.weights += p.data.size() * sizeof(float);
  DPI_ASSIGN_OR_RETURN(const MemoryPlan memory,
                       plan_memory(plan, options.max_rows, options.max_rows, alignment));
  DPI_ASSIGN_OR_RETURN(const InputMap input,
                       make_input_map(make_resolve_schema(plan.features), options.max_rows, options.max_nnz));
  const uint64_t scores = 2 * static_cast<uint64_t>(options.max_rows) * plan.heads.size() * sizeof(float);
  f.flight = static_cast<uint64_t>(memory.arena_bytes) + static_cast<uint64_t>(input.bytes) + scores;
  f.flights = on_device ? options.in_flight : 1;
  f.contexts = context_count(options);
  return f;
}

}  // namespace dpi
