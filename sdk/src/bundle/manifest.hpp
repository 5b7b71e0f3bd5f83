// The content of a bundle's manifest, as plain structs (weights/FORMAT.md parts 3 to 10). Filled and checked
// by read_manifest; every later stage may rely on the checks stated beside the fields.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <dpi/kernels/embed.hpp>

#include "base/attr_value.hpp"
#include "bundle/encoder_spec.hpp"
#include "bundle/row_space.hpp"

namespace dpi {

constexpr int64_t kMaxTableRows = INT32_MAX - 1;        // that the bundle holds: ids are 32 bits in an op
constexpr int64_t kMaxExternalRows = int64_t{1} << 40;  // rows x dim x 4 bytes stay far below 2^63

enum class FeatureKind : int32_t { kCategorical, kSequence, kNumeric, kDense };
enum class OutOfRange : int32_t { kError, kOov, kDefault };
enum class Missing : int32_t { kError, kPad, kDefault };

// The names of these values, wherever they are read or shown.
constexpr const char* name_of(FeatureKind kind) {
  constexpr const char* kNames[] = {"categorical", "sequence", "numeric", "dense"};
  return kNames[static_cast<int>(kind)];
}
constexpr const char* name_of(OutOfRange rule) {
  constexpr const char* kNames[] = {"error", "oov", "default"};
  return kNames[static_cast<int>(rule)];
}
constexpr const char* name_of(Missing rule) {
  constexpr const char* kNames[] = {"error", "pad", "default"};
  return kNames[static_cast<int>(rule)];
}

struct FeatureSpec {
  std::string name;
  FeatureKind kind = FeatureKind::kNumeric;
  RowSpace space = RowSpace::kItem;
  int64_t vocab_size = 0;  // categorical, sequence: 1 .. 2^31-2; 0 when ids are keys
  OutOfRange out_of_range = OutOfRange::kError;
  Missing missing = Missing::kError;
  int64_t pad_id = 0;  // each in [0, vocab_size) where a rule can use it, or any key
  int64_t oov_id = 0;
  int64_t default_id = 0;
  bool has_missing_id = false;
  int64_t missing_id = 0;
  double default_value = 0;  // numeric, dense; finite as a float
  int64_t dim = 1;           // dense: floats per row; numeric: 1
  int64_t max_len = 0;       // sequence
  bool keep_last = false;
  kernels::PadSide pad_side = kernels::PadSide::kPost;
  bool weighted = false;
  EncoderSpec encoder;     // empty = none
  std::string keys;        // the key set that ids are keys of; empty = ids are row numbers
  bool has_pad_id = true;  // always, unless ids are keys: then one may mean padding
  // Set by link_keys where ids are keys: the set, and the rows for absent keys and for padding. Of an
  // external set there are no rows to know: then these are ids that no key of a request gets
  // (kMostRequestKeys).
  int32_t key_set = -1;
  bool keys_elsewhere = false;  // the set is external
  int32_t absent_row = 0;
  int32_t pad_row = 0;

  bool is_slot() const { return kind == FeatureKind::kCategorical || kind == FeatureKind::kSequence; }
  bool is_keyed() const { return !keys.empty(); }
  /// The row that stands for padding where rows are read.
  int32_t padding() const { return is_keyed() ? pad_row : static_cast<int32_t>(pad_id); }
  bool operator==(const FeatureSpec&) const = default;
};

/// Keys of external sets are numbered from 0 in each request; ids from here on are not such numbers.
constexpr int32_t kMostRequestKeys = int32_t{1} << 30;

/// Keys and the rows they stand for, the same in each of the set's tables: key k of the file has row k, row
/// `keys` is for absent ones, and behind it each pad_id of the set's features has a row of its own, so that
/// no other key is taken for padding. Those are copies that a loader makes: the file ends with row `keys`.
struct KeySetSpec {
  std::string name;
  int64_t keys = 0;  // 1 .. 2^31-3, with the rows behind them at most 2^31-2; external: .. 2^40, 0 unknown
  std::string data;  // path of the data set; empty = external
  std::vector<std::optional<int64_t>> pads;  // nullopt: features without a pad_id, whose padding is absent

  bool external() const { return data.empty(); }
};

struct TableSpec {
  std::string name;
  int64_t rows = 0;  // in the file: 1 .. 2^31-2; of a keyed table the default row included
  int64_t dim = 0;   // 1 .. 65536
  kernels::DType dtype = kernels::DType::kF32;
  std::string data;                 // path of the data set; empty = external
  std::string scale, offset;        // the same of each, where the type has them (RowForm)
  std::string keys;                 // the key set that finds its rows; empty = row numbers
  int32_t key_set = -1;             // set by link_keys
  int32_t pad_rows = 0;             // behind `rows` when loaded; set by link_keys
  bool external = false;            // its rows are not in the bundle; `rows` .. 2^40, 0 = not known
  std::string digest;               // external: of its rows, empty = not stated
  std::vector<double> default_row;  // external: empty = zeros

  int64_t loaded_rows() const { return rows + pad_rows; }
  bool operator==(const TableSpec&) const = default;
};

struct OpSpec {
  std::string name;
  std::string op;
  int64_t version = 1;
  std::string module;
  std::string feature;  // Input only
  std::vector<std::string> inputs;
  AttrMap attrs;
  std::map<std::string, std::string> params;  // role -> data set name under /params
  bool operator==(const OpSpec&) const = default;
};

struct HeadSpec {
  std::string name;
  std::string value;
  std::string logit;  // empty = none
  std::string activation;
  bool operator==(const HeadSpec&) const = default;
};

struct GoldenSpec {
  int64_t rows = 0;  // 0 = no golden rows
  int64_t shared_rows = 0;
  double tolerance = 1e-5;
  std::vector<std::string> raw;  // features with raw cells: none of kind dense, each once
  int64_t raw_rows = 0;          // the last of the rows have them
};

struct Manifest {
  int64_t version_minor = 0;
  std::string name;
  std::string provenance;  // an object as JSON text, keys sorted; empty = none
  std::vector<FeatureSpec> features;
  std::vector<TableSpec> tables;
  std::vector<KeySetSpec> key_sets;
  std::vector<OpSpec> ops;
  std::vector<HeadSpec> heads;
  GoldenSpec golden;
  std::string hot_keys;  // the data set of a hot-key list, empty = none
};

/// Slots and dense columns of a feature list, in the order of dpi_batch. Index -1 = not of that kind.
struct BatchColumns {
  std::vector<int32_t> slot_of_feature;    // over all slots
  std::vector<int32_t> column_of_feature;  // first dense column over all dense columns
  std::vector<int32_t>
      item_slot_of_feature;  // numbering within the item part of a batch that has a shared part
  std::vector<int32_t> shared_slot_of_feature;
  std::vector<int32_t> item_column_of_feature;
  std::vector<int32_t> shared_column_of_feature;
  int32_t n_slots = 0, n_item_slots = 0, n_shared_slots = 0;
  int32_t n_columns = 0, n_item_columns = 0, n_shared_columns = 0;
};
BatchColumns columns_of(const std::vector<FeatureSpec>& features);

}  // namespace dpi
