#include "runtime/engine/flight_sizes.hpp"

#include <algorithm>
#include <utility>

#include "backend/abi/batch_bucket.hpp"
#include "runtime/engine/host_flights.hpp"

namespace dpi {

namespace {

constexpr double kHeavyUser = 8;  // as much work as so many rows: worth a shorter chunk

/// Leaves the last user of a chunk to the next one, where that has rows behind the chunk.
void leave_cut_user(const Batch& b, int64_t end, RowRange* r) {
  if (!b.has_shared() || r->end == end || b.shared_offsets[r->shared_end] == r->end) return;
  const int64_t last = b.shared_offsets[r->shared_end - 1];
  if (last <= r->begin) return;
  r->end = last;
  --r->shared_end;
}

}  // namespace

Result<FlightSizes> FlightSizes::make(const Plan& plan, const ResolveSchema& schema,
                                      const ModelOptions& options, const FlightBounds& bounds) {
  FlightSizes s;
  const int64_t max_rows =
      bounds.on_device ? bounds.max_rows : host_flights(plan, options, bounds.max_rows).tall;
  DPI_ASSIGN_OR_RETURN(s.forms,
                       ChunkForms::make(plan, {max_rows, chunk_bytes(options.scratch_bytes, bounds.on_device),
                                               bounds.alignment, bounds.on_device}));
  s.whole_users = rows_per_user(plan) >= kHeavyUser;
  const int64_t most = s.forms.rows();
  for (int64_t rows = bounds.on_device ? 1 : most;; rows = next_bucket(rows, most)) {
    DPI_ASSIGN_OR_RETURN(InputMap map,
                         make_input_map(schema, {rows, std::min(rows, s.forms.users())}, bounds.max_nnz));
    s.maps.push_back(std::move(map));
    if (rows == most) break;
  }
  return s;
}

const InputMap& FlightSizes::map_for(int64_t rows) const {
  const auto at = std::lower_bound(maps.begin(), maps.end(), rows,
                                   [](const InputMap& l, int64_t r) { return l.max_rows < r; });
  return at != maps.end() ? *at : maps.back();
}

Result<RowRange> FlightSizes::next_chunk(const ResolveSchema& schema, const Batch& batch, int64_t begin,
                                         int64_t end) const {
  RowRange most;
  for (const ChunkForm& form : forms.all()) {
    DPI_ASSIGN_OR_RETURN(RowRange r,
                         next_range(schema, largest(), {form.rows, form.users}, batch, begin, end));
    if (whole_users) leave_cut_user(batch, end, &r);
    if (r.rows() > most.rows()) most = r;
    if (most.end == end) break;
  }
  return most;
}

int64_t end_of_users(const Batch& batch, int64_t begin, int64_t usual, int64_t most) {
  const int64_t end = begin + usual;
  if (!batch.has_shared() || most <= usual || end >= batch.item.rows) return end;
  const int64_t* first = batch.shared_offsets;
  const int64_t* user = std::lower_bound(first, first + batch.shared.rows + 1, end);
  if (*user <= begin + most) return *user;
  return user[-1] > begin ? user[-1] : begin + most;
}

}  // namespace dpi
