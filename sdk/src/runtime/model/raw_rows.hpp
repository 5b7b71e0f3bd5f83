// Builds a batch from raw values with the bundle's encoders: the part of serving that most often differs from
// training. One thread at a time; memory is kept between batches.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "runtime/model/model.hpp"
#include "runtime/request/request.hpp"

namespace dpi {

class RawRows {
 public:
  static Result<std::unique_ptr<RawRows>> create(Model& model);
  ~RawRows() {
    if (counters_ != nullptr) model_.close_raw_counters(counters_);
  }
  RawRows(const RawRows&) = delete;
  RawRows& operator=(const RawRows&) = delete;

  void clear();
  Status begin_row();
  Status begin_shared();
  /// Encodes one raw value: sets a categorical or numeric feature, appends to a sequence (each element, where
  /// the schema says how a text is split). Empty text = missing. Integers are read as their digits. What
  /// fails changes nothing but the counters.
  Status set_text(int32_t feature, std::string_view value);
  Status set_number(int32_t feature, double value);
  Status set_integer(int32_t feature, int64_t value);
  Status set_unsigned(int32_t feature, uint64_t value);
  /// Elements of a sequence; any other feature takes one value and is refused. weights: null = all 1.
  Status add_text(int32_t feature, std::string_view value, float weight);
  Status add_integers(int32_t feature, const int64_t* values, const float* weights, int64_t n);
  /// Already encoded.
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
  /// Where the values of a feature go in the open row.
  struct Target {
    int32_t feature;
    const FeatureSpec* spec;
    Part* part;
    int32_t at;  // slot or column within the part
  };
  explicit RawRows(Model& model);
  Status find(int32_t feature, Target* target);
  /// `why` with the row and the feature in front.
  Status refuse(const Target& target, const Status& why) const;
  Status check_takes_one(const Target& target) const;
  Status check_takes_list(const Target& target) const;
  Status encode_text(const Target& target, std::string_view text, EncodedValue* out);
  void count(const Target& target, const EncodedValue& value, const Status& status);
  // Room first, with exceptions for want of memory; what follows cannot fail. So a call that fails has
  // changed no value of the row; what was refused is counted.
  static void make_room_to_open(Part& p);
  static void make_room_to_close(Part& p);
  static void open(Part& p);
  static void close(Part& p);
  static void add_id(const Target& target, int64_t id, float weight);
  static void store(const Target& target, const EncodedValue& value, float weight);
  /// Takes the bag of a sequence back to its first elements unless it is kept.
  struct Undo;

  Model& model_;
  std::shared_ptr<RawCounters> counters_;
  PerSpace<Part> parts_;  // item: every feature as long as no shared row was begun
  std::vector<int64_t> shared_offsets_;
  bool has_shared_ = false;
};

}  // namespace dpi
