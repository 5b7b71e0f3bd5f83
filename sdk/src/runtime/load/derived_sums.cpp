#include "runtime/load/derived_sums.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include <dpi/kernels/narrow.hpp>
#include <dpi/kernels/row_decode.hpp>

namespace dpi {

namespace {

using Term = PlanTable::Term;

void add_term(const Term& term, const float* rows, int64_t first, int64_t n, int64_t dim, DerivedSums* d,
              size_t column, size_t columns) {
  for (int64_t r = 0; r < n; ++r) {
    const float* row = rows + r * dim;
    const double sum = term.value(dim, [row](int64_t k) { return row[k]; });
    const size_t at = static_cast<size_t>(first - d->first + r) * columns + column;
    if (at < d->sums.size()) d->sums[at] += sum;
  }
}

}  // namespace

int32_t only_source(const PlanTable& t) {
  int32_t source = -1;
  for (const auto& column : t.columns) {
    for (const Term& term : column) {
      if (source >= 0 && term.table != source) return -1;
      source = term.table;
    }
  }
  return source;
}

bool is_derived_from(const PlanTable& t, int32_t source) {
  return std::any_of(t.columns.begin(), t.columns.end(), [source](const auto& column) {
    return std::any_of(column.begin(), column.end(),
                       [source](const Term& term) { return term.table == source; });
  });
}

void add_terms(const PlanTable& t, int32_t source, const float* rows, int64_t first, int64_t n, int64_t dim,
               DerivedSums* d) {
  for (size_t c = 0; c < t.columns.size(); ++c) {
    for (const Term& term : t.columns[c]) {
      if (term.table == source) add_term(term, rows, first, n, dim, d, c, t.columns.size());
    }
  }
}

void decode_rows(const TableSpec& spec, kernels::DType stored, int64_t n, std::span<const std::byte> bytes,
                 const float* scales, std::vector<float>* rows) {
  kernels::TableView view;
  view.base = bytes.data();
  view.rows = n;
  view.dim = static_cast<int32_t>(spec.dim);
  view.dtype = stored;
  view.row_bytes = kernels::row_bytes_of(stored, spec.dim);
  view.scale = scales;
  view.scale_stride = 1;
  rows->resize(static_cast<size_t>(n * spec.dim));
  for (int64_t r = 0; r < n; ++r) kernels::decode_row(view, r, rows->data() + r * spec.dim);
}

Status RowNarrower::narrow(const TableSpec& spec, kernels::DType type, int64_t first,
                           std::span<const std::byte>* bytes) {
  const size_t n = bytes->size() / sizeof(float);
  const bool half = type == kernels::DType::kF16;
  narrowed_.resize(n);
  for (size_t i = 0; i < n; ++i) {
    float v = 0;
    std::memcpy(&v, bytes->data() + i * sizeof(float), sizeof v);
    narrowed_[i] = half ? kernels::float_to_half(v) : kernels::float_to_bf16(v);
    if (half ? kernels::half_holds(v) : kernels::bf16_holds(v)) continue;
    const auto at = static_cast<int64_t>(i);
    return unsupported("table '" + spec.name + "', row " + std::to_string(first + at / spec.dim) +
                       ", column " + std::to_string(at % spec.dim) + ": " + std::to_string(v) +
                       " is beyond what " + (half ? "fp16" : "bf16") + " holds; load with precision tf32" +
                       (half ? " or bf16" : ""));
  }
  *bytes = std::as_bytes(std::span(narrowed_));
  return {};
}

}  // namespace dpi
