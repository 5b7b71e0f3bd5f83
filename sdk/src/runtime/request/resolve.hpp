// Turns a caller's batch into what ops read: ids checked against their vocabulary under the feature's rules
// or found among its keys, narrowed to 32 bits and packed, missing values replaced, bags cut to max_len. One
// pass, into memory that a context owns; the same for every backend, so that a bad id means the same
// everywhere. FORMAT.md part 4 states the rules.
//
// The packed block is laid out for a capacity, not for the batch at hand, so addresses stay the same from
// call to call:
//   row_map | item dense | item ids | shared dense | shared ids | per sequence feature: offsets, ids, weights
//   | places in tiered tables, which the store writes: item, shared, per sequence lookup
// The first three are sent in one piece (runtime/execute/input_ranges.cpp).
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <dpi/kernels/tensor.hpp>

#include "base/status.hpp"
#include "bundle/manifest.hpp"
#include "plan/plan.hpp"
#include "runtime/request/request.hpp"

namespace dpi {

class KeyPlaces;

/// Counts of one feature, of one call or (CounterSums) of many.
struct FeatureCounters {
  uint64_t missing = 0;
  uint64_t out_of_range = 0;
  uint64_t cut = 0;
  uint64_t absent = 0;  // keys that their set does not hold

  void add(const FeatureCounters& o) {
    missing += o.missing;
    out_of_range += o.out_of_range;
    cut += o.cut;
    absent += o.absent;
  }
};

/// Everything about the schema that resolving needs, made once per model.
struct ResolveSchema {
  /// Rules of a feature whose ids are keys, with their rows. They do not depend on where rows are.
  struct KeyRules {
    int64_t missing_id = 0, pad_id = 0;
    bool has_missing_id = false, has_pad_id = false;
    int32_t key_set = -1;
    int32_t absent_row = 0, pad_row = 0;
    int32_t default_row = 0;  // of default_id; set by set_key_places
    bool elsewhere = false;   // the set is external: a key's id is its number in the block's raw_keys
    std::optional<int64_t> default_key;  // elsewhere: default_id, which is then as any other key
  };
  struct Feature {
    FeatureSpec spec;
    bool shared = false;
    int32_t slot = -1, part_slot = -1;  // in a batch without / with a shared part
    int32_t column = -1, part_column = -1;
    int32_t packed_column = -1;  // of the packed ids (categorical) or floats (numeric, dense) of its space
    int64_t max_bag = 0;         // ids one bag can have after cutting; 0 = no limit
    KeyRules keys;
  };
  std::vector<Feature> features;
  PerSpace<std::vector<int32_t>> categorical;  // features in packed order: row numbers first, then keys
  PerSpace<std::vector<int32_t>> floats;
  std::vector<int32_t> sequences;
  PerSpace<int32_t> n_ids;     // packed id columns
  PerSpace<int32_t> n_places;  // columns of places of categorical features
  PerSpace<int32_t> n_floats;  // packed float columns
  BatchColumns columns;
  const KeyPlaces* places = nullptr;  // must outlive the schema; null when no ids are keys

  /// Ids of a feature that are looked up in a tiered table; their places are packed beside them.
  struct Placed {
    int32_t feature = -1;
    int32_t column = -1;    // of the packed places of its space (categorical)
    int32_t sequence = -1;  // in `sequences` (sequence)
  };
  std::vector<Placed> placements;  // as Plan::placements

  /// For rows of plain values: packed column k, row numbers only, is slot[k] of a row of ids.
  struct IdColumns {
    /// Packed columns whose slots lie side by side.
    struct Run {
      uint32_t first = 0, n = 0;
    };
    std::vector<int32_t> slot;
    std::vector<uint64_t> limit;   // of the vocabulary
    std::vector<int64_t> missing;  // the id that means missing; -1, which is never valid, when there is none
    std::vector<Run> runs;         // all of them, in order
  };
  /// The packed floats are columns first, first + 1 ... of a row when side_by_side.
  struct FloatColumns {
    int32_t first = 0;
    bool side_by_side = true;
  };
  /// Where the features of one space lie in a row of the batch.
  struct RowColumns {
    IdColumns ids;
    FloatColumns floats;
  };
  PerSpace<RowColumns> whole_rows;  // in rows that carry every feature (a batch without a shared part)
  PerSpace<RowColumns> part_rows;   // in rows of the space's own part
};
ResolveSchema make_resolve_schema(const std::vector<FeatureSpec>& features,
                                  const std::vector<Placement>& placements = {});
/// Where keys are looked for from now on; finds the rows of the rules.
void set_key_places(const KeyPlaces& places, ResolveSchema* schema);

/// Where the packed block's parts lie, in bytes, for one capacity.
struct InputMap {
  int64_t max_rows = 0, max_shared = 0, max_nnz = 0;  // max_nnz: per sequence feature
  int64_t row_map = 0;
  PerSpace<int64_t> dense;
  PerSpace<int64_t> ids;
  struct Sequence {
    int64_t offsets = 0, ids = 0, weights = 0;
    int64_t max_nnz = 0;
  };
  std::vector<Sequence> sequences;  // as ResolveSchema::sequences
  PerSpace<int64_t> places;         // [rows, n_places] of categorical features
  std::vector<int64_t>
      bag_places;        // as ResolveSchema::placements: beside the ids of a sequence, -1 = categorical
  int64_t raw_keys = 0;  // int64 keys of external sets in the order in which they came, one per id
  int64_t bytes = 0;
};
Result<InputMap> make_input_map(const ResolveSchema& schema, const PerSpace<int64_t>& most, int64_t max_nnz);
/// Each row may be its own user.
inline Result<InputMap> make_input_map(const ResolveSchema& schema, int64_t max_rows, int64_t max_nnz) {
  return make_input_map(schema, {max_rows, max_rows}, max_nnz);
}

/// The most ids in a block that are looked up in tiered tables.
int64_t most_placed(const ResolveSchema& schema, const InputMap& map);

/// Rows of a batch that are run together, and the shared rows they use.
struct RowRange {
  int64_t begin = 0, end = 0;
  int64_t shared_begin = 0, shared_end = 0;

  int64_t rows() const { return end - begin; }
};

/// Results of resolving, beside the packed block.
struct ResolvedRows {
  PerSpace<int64_t> rows;  // shared: the item rows again without a shared part
  bool has_map = false;    // row_map is valid; else shared row r belongs to item row r
  int32_t raw_keys = 0;    // keys of external sets

  /// Rows of a value of this space.
  int64_t of(RowSpace space) const { return space == RowSpace::kConstant ? 1 : rows[space]; }
};

/// Checks pointers, lengths, offsets and sizes of the whole batch, once per call. Does not look at ids.
Status check_batch(const ResolveSchema& schema, const Batch& batch);

/// The largest range from `begin` of `most` rows and users that fits the block, ends by `end` and has no
/// shared row without items, at least one row: resolve_rows refuses a row that does not fit.
Result<RowRange> next_range(const ResolveSchema& schema, const InputMap& map, const PerSpace<int64_t>& most,
                            const Batch& batch, int64_t begin, int64_t end);
inline Result<RowRange> next_range(const ResolveSchema& schema, const InputMap& map, const Batch& batch,
                                   int64_t begin, int64_t end) {
  return next_range(schema, map, {map.max_rows, map.max_shared}, batch, begin, end);
}

/// Packs rows [range) into block (map.bytes bytes, 64-byte aligned). counters: one per feature.
/// Fails with kInvalidArgument, row and feature named, at the first value that a rule of its feature refuses.
/// behind: what lies in the block already, all with a map or all without; `out` counts both then. What fails
/// leaves it as it was.
Status resolve_rows(const ResolveSchema& schema, const InputMap& map, const Batch& batch,
                    const RowRange& range, std::byte* block, FeatureCounters* counters, ResolvedRows* out,
                    const ResolvedRows* behind = nullptr);

/// True when all bags of a checked batch have room behind what lies in the block.
bool bags_fit(const ResolveSchema& schema, const InputMap& map, const Batch& batch, const std::byte* block,
              const ResolvedRows& behind);

/// Rows of one block go to the first rows of another, which has room for them. rows: of the first block.
void copy_packed(const ResolveSchema& schema, const InputMap& from, const std::byte* block,
                 const ResolvedRows& rows, const RowRange& range, const InputMap& to, std::byte* copy,
                 ResolvedRows* out);

/// The operand of a feature inside a block that starts at `block` (host or device address).
kernels::Operand input_operand(const ResolveSchema& schema, const InputMap& map, int32_t feature,
                               const ResolvedRows& rows, std::byte* block);
/// The same bags with the places of their ids.
kernels::Operand placed_operand(const ResolveSchema& schema, const InputMap& map, int32_t placement,
                                const ResolvedRows& rows, std::byte* block);

}  // namespace dpi
