// Makes the records of one launch of the fused lookup from its arguments, on the host: what is done with
// which field, and where its columns go. Records come one after another, in the order of RecordRole, so that
// they may be counted, put into kernel arguments or sent to the device in pieces, without memory of their
// own. Used by multi_lookup.cu.
#pragma once

#include "kernels/cuda/lookup/work.hpp"

namespace dpi::kernels::cuda {

/// The purpose of a record: one range of Launch (lookup/work.hpp) each.
enum class RecordRole { kCopy, kVectors, kNumerics, kVectorBags, kScalars, kScalarBags, kBags };

/// Emits the records. `sums`: vectors of the class width are written by the `rows` blocks; otherwise it only
/// reads what its sums need.
class LookupBuild {
 public:
  LookupBuild(const MultiLookupArgs& a, int32_t vector, bool sums);

  /// sink(RecordRole, const Record&) for each record, role by role.
  template <class Sink>
  void for_each(Sink&& sink) const {
    for (const RecordRole role :
         {RecordRole::kCopy, RecordRole::kVectors, RecordRole::kNumerics, RecordRole::kVectorBags,
          RecordRole::kScalars, RecordRole::kScalarBags, RecordRole::kBags}) {
      int32_t next_unit = 0;
      const int32_t n = count_of(role);
      for (int32_t i = 0; i < n; ++i) {
        Record r;
        if (!make(role, i, &r)) continue;
        r.first_unit = next_unit;
        next_unit += units_of(role, r);
        sink(role, r);
      }
    }
  }

  /// Vectors of a row that `copy` threads write, tiles that `bags` warps take.
  int32_t units_of(RecordRole role, const Record& r) const;
  int32_t class_width() const { return class_width_; }
  /// Every size fits its record's field.
  bool fits() const;

 private:
  int32_t count_of(RecordRole role) const;
  bool make(RecordRole role, int32_t i, Record* r) const;
  bool make_field(RecordRole role, const LookupField& f, Record* r) const;
  bool make_numeric(RecordRole role, const NumericField& f, Record* r) const;
  bool make_scalar(RecordRole role, const ScalarField& f, Record* r) const;
  void set_table(const TableView& t, int32_t vector, Record* r) const;
  void set_bags(const EmbedAttrs& e, int32_t input, Record* r) const;
  void set_out(int32_t out_col, Record* r) const;
  bool written(int32_t out_col) const { return out_col >= 0 && a_.out.data != nullptr; }
  bool in_class(int32_t width) const { return sums_ && width == class_width_; }

  const MultiLookupArgs& a_;
  int32_t vector_;
  bool sums_;
  bool channels_;
  int32_t class_width_ = 0;
};

/// The dim of the tables that most one-hot output columns come from; FM's dim where the lookup has FM.
int32_t lookup_class_width(const MultiLookupArgs& a);

inline bool is_one_hot(const MultiLookupArgs& a, const EmbedAttrs& e, int32_t input) {
  return e.pooling == Pooling::kSingle && a.inputs[input].bags.offsets == nullptr;
}

}  // namespace dpi::kernels::cuda
