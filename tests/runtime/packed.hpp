// A request as resolving packs it, without a model.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

#include "runtime/request/resolve.hpp"

namespace dpi::test {

inline FeatureSpec categorical(const char* name, int64_t vocab, RowSpace space = RowSpace::kItem) {
  FeatureSpec f;
  f.name = name;
  f.kind = FeatureKind::kCategorical;
  f.vocab_size = vocab;
  f.space = space;
  return f;
}

inline FeatureSpec sequence(const char* name, int64_t vocab, int64_t max_len,
                            RowSpace space = RowSpace::kItem) {
  FeatureSpec f = categorical(name, vocab, space);
  f.kind = FeatureKind::kSequence;
  f.max_len = max_len;
  f.missing = Missing::kPad;
  return f;
}

inline FeatureSpec numeric(const char* name, RowSpace space = RowSpace::kItem) {
  FeatureSpec f;
  f.name = name;
  f.space = space;
  f.missing = Missing::kDefault;
  f.default_value = 0.25;
  return f;
}

/// A resolver with its block and counters.
struct Packed {
  ResolveSchema schema;
  InputMap map;
  std::vector<std::byte> block;
  std::vector<FeatureCounters> counters;
  ResolvedRows rows;

  /// places: of features whose ids are keys; must outlive this.
  explicit Packed(const std::vector<FeatureSpec>& features, int64_t max_rows = 64, int64_t max_nnz = 256,
                  const KeyPlaces* places = nullptr)
      : schema(make_resolve_schema(features)) {
    if (places != nullptr) set_key_places(*places, &schema);
    auto made = make_input_map(schema, max_rows, max_nnz);
    REQUIRE(made.ok());
    map = std::move(made).value();
    block.assign(static_cast<size_t>(map.bytes), std::byte{0xFF});
    counters.resize(features.size());
  }
  Status run(const Batch& b) {
    DPI_RETURN_IF_ERROR(check_batch(schema, b));
    DPI_ASSIGN_OR_RETURN(const RowRange range, next_range(schema, map, b, 0, b.item.rows));
    return resolve_rows(schema, map, b, range, block.data(), counters.data(), &rows);
  }
  kernels::Operand operand(int32_t feature) {
    return input_operand(schema, map, feature, rows, block.data());
  }
  /// Bag by bag, each bag of a sequence followed by -1.
  std::vector<int32_t> ids(int32_t feature) {
    const kernels::Bags b = operand(feature).bags;
    std::vector<int32_t> out;
    for (int64_t r = 0; r < b.rows; ++r) {
      if (b.offsets == nullptr) {
        out.push_back(b.ids[r * b.stride]);
      } else {
        out.insert(out.end(), b.ids + b.offsets[r], b.ids + b.offsets[r + 1]);
        out.push_back(-1);
      }
    }
    return out;
  }
};

}  // namespace dpi::test
