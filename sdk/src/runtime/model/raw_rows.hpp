// Builds a batch from raw values with the bundle's encoders: the part of serving that most often differs from
// training. One thread at a time; memory is kept between batches.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/model/model.hpp"
#include "runtime/request/request.hpp"

namespace dpi {

class RawRows {
 public:
  explicit RawRows(const Model& model);

  void clear();
  Status begin_row();
  Status begin_shared();
  /// Encodes one raw value: sets a categorical or numeric feature, appends to a sequence. Empty
  /// text = missing.
  Status set_text(int32_t feature, std::string_view value, float weight);
  Status set_number(int32_t feature, double value);
  Status set_ids(int32_t feature, const int64_t* ids, const float* weights, int64_t n);
  Status set_floats(int32_t feature, const float* values, int64_t n);
  /// Valid until the next call on this object.
  Batch batch();
  int64_t rows() const { return parts_.item.rows; }

 private:
  /// One part (item or shared) under construction: bags of the open row by slot, then flattened.
  struct Part {
    int64_t rows = 0;
    int32_t slots = 0;
    int32_t columns = 0;
    std::vector<float> dense;
    std::vector<int64_t> ids;
    std::vector<float> weights;
    std::vector<int64_t> offsets;                // of closed rows
    std::vector<std::vector<int64_t>> open_ids;  // [slots]
    std::vector<std::vector<float>> open_weights;
    bool open = false;
    bool any_weight = false;
  };
  Status check_feature(int32_t feature, Part** part, int32_t* slot_or_column);
  void open(Part& p);
  void close(Part& p);
  Status add_id(int32_t feature, Part& p, int32_t slot, int64_t id, float weight);
  Status store(int32_t feature, Part& p, int32_t at, const EncodedValue& value, float weight);

  const Model& model_;
  PerSpace<Part> parts_;  // item: every feature as long as no shared row was begun
  std::vector<int64_t> shared_offsets_;
  bool has_shared_ = false;
};

}  // namespace dpi
