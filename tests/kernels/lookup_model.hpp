/// A made-up model for the CUDA lookup: one-hot fields, bags of every rule, riders, numerics, FM, in memory
/// between guard bands. Used by lookup_variants_test.cpp, which runs it on `ref` and on the emulation.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include <dpi/kernels/multi_lookup.hpp>
#include <dpi/kernels/narrow.hpp>
#include <dpi/kernels/row_decode.hpp>

namespace dpi::test {

using namespace dpi::kernels;

class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed * 2 + 1) {}
  uint32_t below(uint32_t n) { return next() % n; }
  float real() { return static_cast<float>(static_cast<int32_t>(next())) * 0x1p-31f; }

 private:
  uint32_t next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state_ >> 33);
  }
  uint64_t state_;
};

/// What a case is made of.
struct LookupShape {
  int32_t dim = 16;
  DType table = DType::kF32;
  DType out = DType::kF32;
  bool bags = false;
  bool fm = false;
  bool misaligned = false;  // rows and output columns at odd places
  int64_t rows = 37;
  int32_t copies = 1;  // so many times as many fields of every kind
};

/// `bytes` of aligned memory.
inline std::shared_ptr<char> aligned_block(size_t bytes) {
  return {static_cast<char*>(std::aligned_alloc(256, (bytes + 511) / 256 * 256)), std::free};
}

/// One run's output between guard bands, NaN at first.
class LookupOutput {
 public:
  LookupOutput(int64_t rows, int64_t columns, int64_t stride, DType type)
      : rows_(rows), columns_(columns), stride_(stride), type_(type) {
    const size_t bytes = size() + 2 * kBand;
    block_ = aligned_block(bytes);
    std::memset(block_.get(), 0xFF, bytes);  // NaN in every type
  }
  Tensor tensor() const {
    Tensor t;
    t.data = columns_ > 0 ? reinterpret_cast<float*>(data()) : nullptr;
    t.rows = rows_;
    t.row_stride = stride_;
    t.dims.rank = 1;
    t.dims.d[0] = columns_;
    t.dtype = type_;
    return t;
  }
  float at(int64_t row, int64_t column) const {
    const size_t i = static_cast<size_t>(row * stride_ + column);
    if (type_ == DType::kF32) return reinterpret_cast<const float*>(data())[i];
    const uint16_t bits = reinterpret_cast<const uint16_t*>(data())[i];
    return type_ == DType::kF16 ? half_to_float(bits) : bf16_to_float(bits);
  }
  /// The bands and the padding behind each row are as they were.
  bool bands_intact() const {
    const auto* p = reinterpret_cast<const unsigned char*>(block_.get());
    const size_t element = static_cast<size_t>(dtype_bytes(type_));
    for (size_t i = 0; i < size() + 2 * kBand; ++i) {
      const bool inside = i >= kBand && i < kBand + size();
      const int64_t column = inside ? static_cast<int64_t>((i - kBand) / element) % stride_ : columns_;
      if (column >= columns_ && p[i] != 0xFF) return false;
    }
    return true;
  }
  bool same_rows(const LookupOutput& o, int64_t rows) const {
    return std::memcmp(data(), o.data(), static_cast<size_t>(rows * stride_ * dtype_bytes(type_))) == 0;
  }

 private:
  static constexpr size_t kBand = 256;
  size_t size() const { return static_cast<size_t>(rows_ * stride_ * dtype_bytes(type_)); }
  char* data() const { return block_.get() + kBand; }
  int64_t rows_, columns_, stride_;
  DType type_;
  std::shared_ptr<char> block_;
};

class LookupModel {
 public:
  explicit LookupModel(const LookupShape& shape) : shape_(shape), numbers_(static_cast<uint64_t>(shape.dim)) {
    column_ = shape.misaligned ? 1 : 0;
    for (int32_t copy = 0; copy < shape.copies; ++copy) {
      for (int i = 0; i < 3; ++i) one_hot(shape.dim, shape.fm);
      one_hot(5, false);
      if (shape.bags) all_bags();
      numerics();
    }
    if (shape.fm) {
      attrs_.n_channels = 3;
      attrs_.fm_channel = 1;
      attrs_.fm_dim = shape.dim;
    }
  }

  int64_t columns() const { return column_; }
  int64_t stride() const { return shape_.misaligned ? column_ + 1 : (column_ + 16) / 8 * 8; }
  const LookupShape& shape() const { return shape_; }
  std::vector<int32_t>& ids(size_t input) { return *ids_[input]; }
  std::vector<int32_t>& offsets(size_t input) { return *offsets_[input]; }
  /// Operand of the first bag field.
  size_t first_bag() const { return first_bag_; }

  MultiLookupArgs args(const LookupOutput& out, const LookupOutput& chan, int64_t rows) const {
    MultiLookupArgs a;
    a.attrs = attrs_;
    a.attrs.fields = fields_.data();
    a.attrs.n_fields = static_cast<int32_t>(fields_.size());
    a.attrs.scalars = scalars_.data();
    a.attrs.n_scalars = shape_.fm ? static_cast<int32_t>(scalars_.size()) : 0;
    a.attrs.numerics = numerics_.data();
    a.attrs.n_numerics = static_cast<int32_t>(numerics_.size());
    a.inputs = inputs_.data();
    a.tables = tables_.data();
    a.numeric_vec.data = vec_.data();
    a.numeric_coef.data = coef_.data();
    a.channel_bias.data = shape_.fm ? bias_ : nullptr;
    a.rows = rows;
    a.out = out.tensor();
    a.chan = chan.tensor();
    return a;
  }

 private:
  static constexpr int64_t kTableRows = 23;

  void put(char* row, int32_t k, float v) {
    switch (shape_.table) {
      case DType::kF32:
        std::memcpy(row + k * 4, &v, 4);
        break;
      case DType::kI8:
        row[k] = static_cast<char>(static_cast<int8_t>(v * 127));
        break;
      default: {  // any bits that are no NaN
        const uint16_t bits = shape_.table == DType::kBF16
                                  ? static_cast<uint16_t>(std::bit_cast<uint32_t>(v) >> 16)
                                  : static_cast<uint16_t>(v == 0 ? 0 : numbers_.below(0x3C00));
        std::memcpy(row + k * 2, &bits, 2);
      }
    }
  }

  /// A row whose scale lies behind its elements: any bits, of about 1.
  void put_whole(char* row, int32_t dim, bool zero) {
    const int64_t n = element_row_bytes(shape_.table, dim);
    for (int64_t i = 0; i < n; ++i) row[i] = static_cast<char>(zero ? 0 : numbers_.below(0x7F));
    if (shape_.table == DType::kFp8) {
      const float scale = numbers_.real() / 256;
      std::memcpy(row + n, &scale, sizeof scale);
      return;
    }
    const uint16_t behind[] = {float_to_half(numbers_.real() / 8),
                               float_to_half(zero ? 0.0f : numbers_.real())};
    std::memcpy(row + n, behind, sizeof behind);
  }

  /// The rows' padding holds NaN, except for `riders` float scalars right behind the row.
  int32_t table(int32_t dim, int32_t riders) {
    const int64_t payload = (row_bytes_of(shape_.table, dim) + 3) / 4 * 4;
    const int64_t used = payload + riders * 4;
    TableView t;
    t.row_bytes = shape_.misaligned ? used + 4 : used <= 64 ? 64 : (used + 31) / 32 * 32;
    const size_t bytes = static_cast<size_t>(kTableRows * t.row_bytes);
    std::shared_ptr<char> block = aligned_block(bytes + 4);
    blocks_.push_back(block);
    char* base = block.get() + (shape_.misaligned ? 4 : 0);
    std::memset(base, 0xFF, bytes);
    for (int64_t r = 0; r < kTableRows; ++r) {
      const bool whole = row_form(shape_.table).whole;
      if (whole) put_whole(base + r * t.row_bytes, dim, r == 3);
      for (int32_t k = 0; k < (whole ? 0 : dim); ++k)
        put(base + r * t.row_bytes, k, r == 3 ? 0.0f : numbers_.real());
      for (int32_t k = 0; k < riders; ++k) {
        const float v = numbers_.real();
        std::memcpy(base + r * t.row_bytes + payload + k * 4, &v, 4);
      }
    }
    t.base = base;
    t.rows = kTableRows;
    t.dim = dim;
    t.dtype = shape_.table;
    scales_.push_back(std::make_shared<std::vector<float>>(kTableRows));
    for (float& s : *scales_.back()) s = numbers_.real();
    t.scale = scales_.back()->data();
    t.scale_stride = 1;
    tables_.push_back(t);
    if (riders == 0) return static_cast<int32_t>(tables_.size()) - 1;
    t.base = base + payload;
    t.dim = riders;
    t.dtype = DType::kF32;
    tables_.push_back(t);
    return static_cast<int32_t>(tables_.size()) - 2;
  }

  int32_t operand(std::vector<int32_t> ids, std::vector<int32_t> offsets, bool weighted) {
    ids_.push_back(std::make_shared<std::vector<int32_t>>(std::move(ids)));
    offsets_.push_back(std::make_shared<std::vector<int32_t>>(std::move(offsets)));
    scales_.push_back(std::make_shared<std::vector<float>>(ids_.back()->size() + 1));
    for (float& w : *scales_.back()) w = numbers_.real() + 1.5f;
    Operand o;
    o.bags.ids = ids_.back()->data();
    o.bags.stride = 1;
    o.bags.rows = shape_.rows;
    if (!offsets_.back()->empty()) o.bags.offsets = offsets_.back()->data();
    if (weighted) o.bags.weights = scales_.back()->data();
    inputs_.push_back(o);
    return static_cast<int32_t>(inputs_.size()) - 1;
  }

  void field(const EmbedAttrs& e, int32_t input, int32_t t, bool fm) {
    fields_.push_back({e, input, t, column_, fm});
    column_ += tables_[static_cast<size_t>(t)].dim;
  }

  void one_hot(int32_t dim, bool fm) {
    std::vector<int32_t> ids;
    for (int64_t r = 0; r < shape_.rows; ++r) ids.push_back(static_cast<int32_t>(numbers_.below(kTableRows)));
    const int32_t input = operand(std::move(ids), {}, false);
    const int32_t t = table(dim, 2);
    field({}, input, t, fm);
    scalars_.push_back({{}, input, t + 1, static_cast<int32_t>(scalars_.size() % 2), 2});
  }

  void bag(const EmbedAttrs& e, bool fm, bool weighted, int32_t longest) {
    std::vector<int32_t> ids, offsets{0};
    for (int64_t r = 0; r < shape_.rows; ++r) {
      const int32_t lengths[] = {0, 1, 3, static_cast<int32_t>(numbers_.below(9)), longest};
      const int32_t n = lengths[r % 5 == 4 && r % 10 != 4 ? 3 : r % 5];
      for (int32_t i = 0; i < n; ++i) ids.push_back(static_cast<int32_t>(numbers_.below(kTableRows)));
      offsets.push_back(static_cast<int32_t>(ids.size()));
    }
    const int32_t input = operand(std::move(ids), std::move(offsets), weighted);
    const int32_t t = table(fm ? shape_.dim : (shape_.dim + 3) / 2, 1);
    field(e, input, t, fm);
    EmbedAttrs scalar = e;
    if (scalar.pooling == Pooling::kMax) scalar.pooling = Pooling::kSum;
    scalars_.push_back({scalar, input, t + 1, 2, 1});
  }

  void all_bags() {
    first_bag_ = inputs_.size();
    const bool fm = shape_.fm;
    bag({Pooling::kSum, MaskRule::kLength, PadSide::kPost, 0, 0, 0, 0}, fm, true, 65);
    bag({Pooling::kMean, MaskRule::kId, PadSide::kPost, 2, 0, 1e-3f, 0}, false, true, 200);
    bag({Pooling::kMax, MaskRule::kLength, PadSide::kPost, 0, 0, 0, -7}, false, false, 70);
    bag({Pooling::kSum, MaskRule::kNone, PadSide::kPost, 1, 10, 0, 0}, fm, false, 10);
    bag({Pooling::kMean, MaskRule::kNonzero, PadSide::kPost, 0, 0, 0, 0}, false, false, 66);
    bag({Pooling::kMax, MaskRule::kId, PadSide::kPost, 2, 0, 0, 0.25f}, false, false, 7);
  }

  void numeric(int32_t dim, bool projected) {
    values_.push_back(std::make_shared<std::vector<float>>());
    const int32_t floats = projected ? 1 : dim;
    for (int64_t i = 0; i < shape_.rows * floats; ++i) values_.back()->push_back(numbers_.real());
    Operand o;
    o.tensor.data = values_.back()->data();
    o.tensor.rows = shape_.rows;
    o.tensor.row_stride = floats;
    o.tensor.dims.rank = 1;
    o.tensor.dims.d[0] = floats;
    inputs_.push_back(o);
    ids_.push_back(std::make_shared<std::vector<int32_t>>());
    offsets_.push_back(ids_.back());
    NumericField f;
    f.input = static_cast<int32_t>(inputs_.size()) - 1;
    f.out_col = column_;
    f.dim = dim;
    if (projected) {
      f.vec = static_cast<int32_t>(vec_.size());
      for (int32_t k = 0; k < dim; ++k) vec_.push_back(numbers_.real());
      f.fm = shape_.fm;
    }
    if (floats == 1 && shape_.fm) {
      f.coef = static_cast<int32_t>(coef_.size());
      for (int k = 0; k < 3; ++k) coef_.push_back(numbers_.real());
    }
    numerics_.push_back(f);
    column_ += dim;
  }

  void numerics() {
    numeric(shape_.dim, true);
    numeric(shape_.dim, true);
    numeric(1, false);
    numeric(3, false);
  }

  LookupShape shape_;
  Numbers numbers_;
  int32_t column_ = 0;
  size_t first_bag_ = 0;
  MultiLookupAttrs attrs_;
  std::vector<LookupField> fields_;
  std::vector<ScalarField> scalars_;
  std::vector<NumericField> numerics_;
  std::vector<Operand> inputs_;
  std::vector<TableView> tables_;
  std::vector<float> vec_, coef_;
  const float bias_[3] = {0.5f, -0.25f, 0.125f};
  std::vector<std::shared_ptr<char>> blocks_;
  std::vector<std::shared_ptr<std::vector<float>>> scales_, values_;
  std::vector<std::shared_ptr<std::vector<int32_t>>> ids_, offsets_;
};

}  // namespace dpi::test
