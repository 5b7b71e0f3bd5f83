// The sizes of a context's flights: room for the values of a chunk and for its packed input.
#pragma once

#include <vector>

#include "runtime/engine/chunk_forms.hpp"
#include "runtime/options/options.hpp"
#include "runtime/request/resolve.hpp"

namespace dpi {

/// A context has these, of its caller and of the device.
struct FlightBounds {
  int64_t max_rows = 1, max_nnz = 1;
  int64_t alignment = 64;
  bool on_device = false;
};

/// The sizes that all flights of a context share. maps[i] is the packed block of bucket i; the last bucket
/// has the most rows. With host memory there is only the last.
struct FlightSizes {
  ChunkForms forms;
  std::vector<InputMap> maps;
  bool whole_users = false;  // a chunk ends before a user that has no room for all of its rows

  static Result<FlightSizes> make(const Plan& plan, const ResolveSchema& schema, const ModelOptions& options,
                                  const FlightBounds& bounds);
  const InputMap& map_for(int64_t rows) const;
  const InputMap& largest() const { return maps.back(); }
  const MemoryPlan& memory_for(const PerSpace<int64_t>& rows) const {
    return forms.memory_for(rows.item, rows.shared);
  }
  /// Rows of an op whose outputs are of this space.
  int64_t rows_of(RowSpace space) const { return space == RowSpace::kShared ? forms.users() : forms.rows(); }
  /// The next chunk of a checked batch: the largest range from `begin` that ends by `end` and that a form
  /// holds, at least one row.
  Result<RowRange> next_chunk(const ResolveSchema& schema, const Batch& batch, int64_t begin,
                              int64_t end) const;
};

/// Where a chunk from `begin` on ends that keeps users whole: after `usual` rows, or behind the rows of the
/// user that has the last of these; before them where that would be more than `most` rows.
int64_t end_of_users(const Batch& batch, int64_t begin, int64_t usual, int64_t most);

}  // namespace dpi
