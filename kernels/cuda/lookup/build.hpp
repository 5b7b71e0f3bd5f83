// Makes the records of one launch of the fused lookup from its arguments, on the host: which field goes into
// which part, and where. Records come one after another, in the order of the parts, so that they may be
// counted, put into kernel arguments or sent to the device in pieces, without memory of their own.
// Used by multi_lookup.cu.
#pragma once

#include "kernels/cuda/lookup/work.hpp"

namespace dpi::kernels::cuda {

enum class Part { kCopy, kVectors, kNumerics, kVectorBags, kScalars, kScalarBags, kBags };

/// Emits the records. `sums`: vectors of the class width are written by the rows part; otherwise it only
/// reads what its sums need.
class LookupBuild {
 public:
  LookupBuild(const MultiLookupArgs& a, int32_t vector, bool sums);

  /// sink(Part, const Record&) for each record, parts in order.
  template <class Sink>
  void for_each(Sink&& sink) const {
    for (const Part part : {Part::kCopy, Part::kVectors, Part::kNumerics, Part::kVectorBags, Part::kScalars,
                            Part::kScalarBags, Part::kBags}) {
      int32_t next_unit = 0;
      const int32_t n = count_of(part);
      for (int32_t i = 0; i < n; ++i) {
        Record r;
        if (!make(part, i, &r)) continue;
        r.first_unit = next_unit;
        next_unit += units_of(part, r);
        sink(part, r);
      }
    }
  }

  /// Vectors of a row in the copy part, tiles of the bags part.
  int32_t units_of(Part part, const Record& r) const;
  int32_t class_width() const { return class_width_; }
  /// Every size fits its record's field.
  bool fits() const;

 private:
  int32_t count_of(Part part) const;
  bool make(Part part, int32_t i, Record* r) const;
  bool make_field(Part part, const LookupField& f, Record* r) const;
  bool make_numeric(Part part, const NumericField& f, Record* r) const;
  bool make_scalar(Part part, const ScalarField& f, Record* r) const;
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

/// Columns that most one-hot output comes from; the FM's where there is one.
int32_t lookup_class_width(const MultiLookupArgs& a);

inline bool is_one_hot(const MultiLookupArgs& a, const EmbedAttrs& e, int32_t input) {
  return e.pooling == Pooling::kSingle && a.inputs[input].bags.offsets == nullptr;
}

}  // namespace dpi::kernels::cuda
