// What a chain computes, taken from its description: values in shared memory, what the gather fetches into
// them, and the steps with their levels. Independent of the device. Made by small_batch/model.cpp, laid out
// and divided among ranks and warps by small_batch/plan.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/bind.hpp"

namespace dpi::backend {

/// Columns [column, column + n) of a value; value -1 = absent.
struct ChainRef {
  int32_t value = -1;
  int32_t column = 0;
  int32_t n = 0;
  kernels::Dims dims;
};

struct ChainValue {
  int32_t columns = 0;
  bool product = false;  // a Dense multiplies it
  bool factor = false;   // a Dense reads it as mul or add
  bool exact = false;    // something else reads it
  bool wide = false;     // FM reads it: float32 in any case
  bool zeroed = false;   // cleared at the start: no single op writes all of it
  int32_t first = 0;     // levels in which it is alive
  int32_t last = -1;

  bool is_read() const { return last >= 0; }
};

enum class ChainStepKind : int32_t { kProduct, kChannels, kElementwise, kFm, kCrossV1Closed, kTail, kCopy };

struct ChainStep {
  ChainStepKind kind = ChainStepKind::kCopy;
  int32_t op = -1;
  int32_t level = 0;
  std::vector<ChainRef> in;   // in the op's order
  std::vector<ChainRef> out;  // may be absent
  std::vector<int32_t> kept;  // per out: number in ChainModel::outputs, -1
};

/// One field, scalar table or tensor that the gather brings; `vec`: of the op's numeric vectors, -1.
struct ChainFetch {
  ChainRef dst;
  int32_t input = 0;   // number in ChainModel::inputs
  int32_t table = -1;  // number in ChainModel::tables
  bool one_id = false;
  int32_t op = -1;
  int32_t vec = -1;
  kernels::EmbedAttrs embed;
};

/// Parts of a lookup's channels; x: what a fetch brought.
struct ChainChannelPart {
  enum class Kind : int32_t { kScalar, kNumeric, kFm };
  Kind kind = Kind::kScalar;
  ChainRef x;
  int32_t first_channel = 0;  // scalar
  int32_t coef = 0;           // numeric
  bool with_squares = false;  // FM
  int32_t vec = -1;           // FM: of a numeric that is not copied; x is its one value
};
struct ChainLookup {
  int32_t op = -1;
  std::vector<ChainChannelPart> parts;
};

/// Operand `index` of call `op`.
struct ChainSource {
  int32_t op = 0;
  int32_t index = 0;
};

struct ChainModel {
  std::vector<OwnedOp> ops;
  std::vector<ChainValue> values;
  std::vector<ChainFetch> fetches;
  std::vector<ChainLookup> lookups;
  std::vector<ChainStep> steps;
  std::vector<ChainSource> inputs;
  std::vector<ChainSource> tables;
  std::vector<ChainSource> outputs;
  int32_t n_levels = 0;

  const ChainLookup& lookup_of(int32_t op) const;
  /// Elements of the weights of all products.
  int64_t weights() const;
};

/// kUnsupported with the op and the reason when a chain cannot do what an op asks.
Result<ChainModel> make_chain_model(const dpi_chain_desc& desc);

}  // namespace dpi::backend
