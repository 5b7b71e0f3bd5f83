// A random call of MultiLookup with one row a field: tables of one type and width in every layout, ids beside
// each other or in columns, scalars in the rows' padding or in tables of their own, numeric fields between,
// columns with gaps.
#pragma once

#include <algorithm>
#include <deque>
#include <numeric>
#include <random>
#include <vector>

#include "bench/lookup_data.hpp"

namespace dpi::test {

struct LookupCall {
  static constexpr int32_t kTables = 5;  // that fields choose from
  static constexpr int64_t kTableRows = 61;
  static constexpr int64_t kParams = 256;

  int64_t rows;
  std::mt19937 rng;
  bool fm, has_out = true;
  int32_t fm_dim, channels, columns = 0;
  std::deque<LookupTable> tables;
  std::vector<kernels::TableView> views;  // of rows; kTables on: of scalars with them; 2 kTables on: apart
  std::vector<int32_t> ids;
  std::vector<kernels::Operand> inputs;
  std::vector<kernels::LookupField> fields;
  std::vector<kernels::ScalarField> scalars;
  std::vector<kernels::NumericField> numerics;
  std::deque<std::vector<float>> numbers;  // of numeric inputs
  std::vector<float> vec, coef, bias;

  /// with_fm: if there is a channel for it.
  LookupCall(uint32_t seed, kernels::DType dtype, int32_t dim, int64_t n_fields, int64_t n_rows, bool with_fm)
      : rows(n_rows), rng(seed) {
    constexpr int32_t kChannels[] = {0, 1, 1, 1, 2, 3, 7, 40, 128};
    channels = kChannels[below(9)];
    fm = with_fm && channels > 0;
    fm_dim = fm ? dim : number_below(40) + 1;
    vec = floats(kParams);
    coef = floats(kParams);
    if (below(3) > 0) bias = floats(channels);
    draw_tables(dtype, dim);
    draw_ids(n_fields);
    for (int64_t i = 0; i < n_fields; ++i) {
      const int32_t input = number_below(static_cast<int64_t>(inputs.size()));
      fields.push_back({{}, input, number_below(kTables), 0, fm});
    }
    draw_scalars();
    for (int64_t n = below(4); n > 0; --n) draw_numeric();
    draw_columns(dim);
  }
  LookupCall(const LookupCall&) = delete;
  LookupCall& operator=(const LookupCall&) = delete;

  int64_t below(int64_t n) { return static_cast<int64_t>(rng() % static_cast<uint64_t>(n)); }
  int32_t number_below(int64_t n) { return static_cast<int32_t>(below(n)); }
  std::vector<float> floats(int64_t n) {
    std::vector<float> v(static_cast<size_t>(n));
    for (float& e : v) e = std::uniform_real_distribution<float>(-1, 1)(rng);
    return v;
  }

  kernels::TableView new_table(kernels::DType dtype, int32_t dim, int64_t padding) {
    tables.emplace_back(rng, dtype, dim, kTableRows, TableLayout{padding, below(5), 1 + below(2)});
    return tables.back().view;
  }

  /// Scalars in the padding of a table's rows; where there is no room, in a table of their own.
  kernels::TableView with_rows(LookupTable& table) {
    kernels::TableView v = table.view;
    const int64_t used = kernels::row_bytes_of(v.dtype, v.dim), room = v.row_bytes - used;
    if (room < 4) return new_table(kernels::DType::kF32, 1, 0);
    char* const first = table.rows() + used + below(room - 3);
    for (int64_t r = 0; r < kTableRows; ++r) std::memcpy(first + r * v.row_bytes, floats(1).data(), 4);
    v.base = first;
    v.dim = 1;
    v.dtype = kernels::DType::kF32;
    v.scale = nullptr;
    return v;
  }

  void draw_tables(kernels::DType dtype, int32_t dim) {
    for (int32_t t = 0; t < kTables; ++t)
      views.push_back(new_table(dtype, dim, below(3) == 0 ? 0 : below(24)));
    for (size_t t = 0; t < kTables; ++t) views.push_back(with_rows(tables[t]));
    for (int32_t t = 0; t < kTables; ++t) {
      views.push_back(new_table(kernels::DType::kF32, number_below(3) + 1, below(2) * below(9)));
    }
  }

  /// Each operand's ids in a column of their own, beside those of the others, or one so and the next so.
  void draw_ids(int64_t n_fields) {
    const int64_t n = 1 + below(n_fields), order = below(3);
    for (int64_t i = 0; i < n * rows; ++i) ids.push_back(number_below(kTableRows));
    for (int64_t i = 0; i < n; ++i) {
      const bool beside = order == 2 ? below(2) == 0 : order == 1;
      inputs.emplace_back();
      inputs.back().bags.ids = ids.data() + (beside ? i : i * rows);
      inputs.back().bags.stride = beside ? n : 1;
      inputs.back().bags.rows = rows;
    }
  }

  /// Scalar i goes with field i. All are in one channel, or they go from one to the next, or anywhere.
  void draw_scalars() {
    const auto n = static_cast<int64_t>(fields.size());
    const int64_t counts[] = {0, n, n, below(n + 1)};
    const int64_t count = channels == 0 ? 0 : counts[below(4)], where = below(3), order = below(3);
    const int32_t one = channels == 0 ? 0 : number_below(channels);
    for (int64_t i = 0; i < count; ++i) {
      const kernels::LookupField& f = fields[static_cast<size_t>(i)];
      const bool apart = where == 2 ? below(2) == 0 : where == 1;
      const auto next = static_cast<int32_t>(i * channels / count);
      const int32_t channel = order == 0 ? one : order == 1 ? next : number_below(channels);
      scalars.push_back({{}, f.input, f.table + (apart ? 2 : 1) * kTables, channel, 1});
    }
  }

  /// A number times a vector, a number as it is, or several.
  void draw_numeric() {
    const int64_t kind = below(3), apart = below(3);
    const int32_t width = kind == 2 ? 2 + number_below(20) : 1;
    kernels::NumericField f;
    f.input = static_cast<int32_t>(inputs.size());
    f.dim = kind == 0 ? fm_dim : width;
    f.vec = kind == 0 ? number_below(kParams - fm_dim) : -1;
    f.coef = kind == 2 || channels == 0 ? -1 : number_below(kParams - channels);
    f.fm = kind == 0 && channels > 0 && below(2) == 0;
    numerics.push_back(f);
    numbers.push_back(floats(rows * (width + apart)));
    inputs.emplace_back();
    inputs.back().tensor = tensor_over(numbers.back(), rows, width + apart, width);
  }

  /// From left to right in the order of the fields, or in any, with gaps or none.
  void draw_columns(int32_t dim) {
    struct Place {
      int32_t* col;
      int32_t width;
    };
    std::vector<Place> places;
    for (kernels::LookupField& f : fields) places.push_back({&f.out_col, dim});
    for (kernels::NumericField& f : numerics) places.push_back({&f.out_col, f.dim});
    if (below(2) == 0) std::shuffle(places.begin(), places.end(), rng);
    const int64_t gaps = below(2) == 0 ? 1 : 4;
    for (const Place& p : places) {
      columns += number_below(gaps);
      *p.col = columns;
      columns += p.width;
    }
  }

  /// Without outputs; reads `operands` in place of the inputs.
  kernels::MultiLookupArgs args(const std::vector<kernels::Operand>& operands) const {
    kernels::MultiLookupArgs a;
    a.attrs = {fields.data(),
               scalars.data(),
               numerics.data(),
               size_of(fields),
               size_of(scalars),
               size_of(numerics),
               channels,
               channels > 0 ? channels / 2 : -1,
               fm_dim};
    a.inputs = operands.data();
    a.tables = views.data();
    a.numeric_vec.data = vec.data();
    a.numeric_coef.data = coef.data();
    a.channel_bias.data = bias.empty() ? nullptr : bias.data();
    a.rows = rows;
    return a;
  }
  template <class T>
  static int32_t size_of(const std::vector<T>& v) {
    return static_cast<int32_t>(v.size());
  }
};

}  // namespace dpi::test
