#include "runtime/load/table_patch.hpp"

#include <algorithm>
#include <utility>

#include "bundle/byte_source.hpp"
#include "bundle/row_parts.hpp"
#include "store/resident/row_overlay.hpp"

namespace dpi {

namespace {

constexpr int64_t kSumRows = 65536;  // of a derived table that are made at once

std::vector<int32_t> sources_of(const PlanTable& t, size_t tables) {
  std::vector<int32_t> sources;
  for (size_t s = 0; s < tables; ++s) {
    if (is_derived_from(t, static_cast<int32_t>(s))) sources.push_back(static_cast<int32_t>(s));
  }
  return sources;
}

int64_t rows_in(int64_t bytes, int64_t row_bytes) { return std::max<int64_t>(1, bytes / row_bytes); }

}  // namespace

TablePatcher::TablePatcher(const Bundle& bundle, const Plan& plan, const LoadBase* base, TableStore& store,
                           LoadWatch* watch)
    : bundle_(bundle),
      plan_(plan),
      base_(base),
      store_(store),
      watch_(watch),
      patched_(plan.tables.size(), false),
      table_of_(bundle.manifest().tables.size(), -1),
      pads_(table_of_.size()) {
  for (size_t t = 0; t < plan.tables.size(); ++t) {
    if (plan.tables[t].source >= 0)
      table_of_[static_cast<size_t>(plan.tables[t].source)] = static_cast<int32_t>(t);
  }
  for (size_t t = 0; t < plan.tables.size(); ++t) patched_[t] = can_patch(t);
}

/// Its rows before can be read from where the version before has them.
bool TablePatcher::is_in_memory(int32_t source) const {
  const int32_t t = table_of_[static_cast<size_t>(source)];
  return t >= 0 && store_.handover().has_before(t);
}

/// A derived table whose factors have changed too is made anew from rows in memory.
bool TablePatcher::can_patch(size_t table) const {
  const auto index = static_cast<int32_t>(table);
  const PlanTable& t = plan_.tables[table];
  if (base_ == nullptr || t.tiered || store_.handover().has_rows(index)) return false;
  if (t.source >= 0) return store_.handover().has_before(index);
  const std::vector<int32_t> sources = sources_of(t, table_of_.size());
  return store_.handover().has_before(index) ||
         std::all_of(sources.begin(), sources.end(), [this](int32_t s) { return is_in_memory(s); });
}

Status TablePatcher::patch() {
  for (size_t t = 0; t < patched_.size(); ++t) {
    if (!store_.handover().spare_rows(static_cast<int32_t>(t)).empty()) DPI_RETURN_IF_ERROR(put_spare(t));
    if (!patched_[t]) continue;
    DPI_RETURN_IF_ERROR(plan_.tables[t].source >= 0 ? patch_table(t) : patch_derived(t));
  }
  return {};
}

/// Rows behind those of the file are copies of rows whose number the version before may have had otherwise.
RowHistory::Run TablePatcher::run_of(int32_t source, int64_t row) const {
  const TableSpec& spec = bundle_.manifest().tables[static_cast<size_t>(source)];
  if (row >= spec.rows) return {-1, spec.loaded_rows() - row};
  return base_->rows[static_cast<size_t>(source)].at(row, spec.rows);
}

kernels::DType TablePatcher::stored_type(int32_t source) const {
  const int32_t t = table_of_[static_cast<size_t>(source)];
  return t >= 0 ? plan_.tables[static_cast<size_t>(t)].dtype
                : bundle_.manifest().tables[static_cast<size_t>(source)].dtype;
}

Status TablePatcher::patch_table(size_t table) {
  const auto index = static_cast<int32_t>(table);
  const PlanTable& t = plan_.tables[table];
  const TableSpec& spec = bundle_.manifest().tables[static_cast<size_t>(t.source)];
  if (t.dtype == kernels::DType::kI8) DPI_RETURN_IF_ERROR(ingest_scales(table));
  const int64_t most = rows_in(kReadBlockBytes, kernels::row_bytes_of(spec.dtype, t.dim));
  for (int64_t row = 0; row < t.rows;) {
    const RowHistory::Run run = run_of(t.source, row);
    const int64_t n = std::min(run.rows, most);
    if (run.before >= 0) {
      DPI_RETURN_IF_ERROR(store_.handover().ingest_before(index, row, n, run.before));
    } else {
      DPI_RETURN_IF_ERROR(read_rows(t.source, row, n, &bytes_));
      std::span<const std::byte> bytes(bytes_);
      if (t.dtype != spec.dtype) DPI_RETURN_IF_ERROR(narrower_.narrow(spec, t.dtype, row, &bytes));
      DPI_RETURN_IF_ERROR(store_.ingest(index, row, n, bytes));
    }
    if (row < spec.rows)
      DPI_RETURN_IF_ERROR(
          watch_->advance(static_cast<uint64_t>(n * kernels::row_bytes_of(spec.dtype, t.dim))));
    row += n;
  }
  return {};
}

/// Four bytes a row: all are read.
Status TablePatcher::ingest_scales(size_t table) {
  const PlanTable& t = plan_.tables[table];
  std::vector<float> scales;
  DPI_RETURN_IF_ERROR(read_scales(t.source, 0, t.rows, &scales));
  return store_.ingest_scale(static_cast<int32_t>(table), scales);
}

Status TablePatcher::patch_derived(size_t table) {
  const auto index = static_cast<int32_t>(table);
  const PlanTable& t = plan_.tables[table];
  const std::vector<int32_t> sources = sources_of(t, table_of_.size());
  const bool keeps = store_.handover().has_before(index);
  DerivedSums d{index, -1, 0, {}};
  for (int64_t row = 0; row < t.rows; row = d.first) {
    RowHistory::Run run{-1, std::min(kSumRows, t.rows - row)};
    for (const int32_t s : sources) {
      const RowHistory::Run of = run_of(s, row);
      run.rows = std::min(run.rows, of.rows);
      run.before = s == sources.front() || of.before == run.before ? of.before : -1;
    }
    d.first = row;
    if (keeps && run.before >= 0) {
      DPI_RETURN_IF_ERROR(store_.handover().ingest_before(index, row, run.rows, run.before));
    } else {
      d.sums.assign(static_cast<size_t>(run.rows) * t.columns.size(), 0.0);
      for (const int32_t s : sources) DPI_RETURN_IF_ERROR(add_source(t, s, row, run.rows, &d));
      rows_.assign(d.sums.begin(), d.sums.end());
      DPI_RETURN_IF_ERROR(store_.ingest(index, row, run.rows, std::as_bytes(std::span(rows_))));
    }
    d.first += run.rows;
    DPI_RETURN_IF_ERROR(watch_->advance(0));
  }
  return {};
}

Status TablePatcher::put_spare(size_t table) {
  const auto index = static_cast<int32_t>(table);
  const PlanTable& t = plan_.tables[table];
  const std::vector<int32_t> sources = sources_of(t, table_of_.size());
  std::vector<std::byte> rows;
  std::vector<float> scales;
  DerivedSums d{index, -1, 0, {}};
  for (const MovedRow& m : store_.handover().spare_rows(index)) {
    std::span<const std::byte> bytes;
    if (t.source >= 0) {
      const TableSpec& spec = bundle_.manifest().tables[static_cast<size_t>(t.source)];
      DPI_RETURN_IF_ERROR(read_rows(t.source, m.row, 1, &bytes_));
      bytes = bytes_;
      if (t.dtype != spec.dtype) DPI_RETURN_IF_ERROR(narrower_.narrow(spec, t.dtype, m.row, &bytes));
      if (t.dtype == kernels::DType::kI8) {
        DPI_RETURN_IF_ERROR(read_scales(t.source, m.row, 1, &scales_));
        scales.push_back(scales_[0]);
      }
    } else {
      d.first = m.row;
      d.sums.assign(t.columns.size(), 0.0);
      for (const int32_t s : sources) DPI_RETURN_IF_ERROR(add_source(t, s, m.row, 1, &d));
      rows_.assign(d.sums.begin(), d.sums.end());
      bytes = std::as_bytes(std::span(rows_));
    }
    rows.insert(rows.end(), bytes.begin(), bytes.end());
    DPI_RETURN_IF_ERROR(watch_->advance(0));
  }
  return store_.handover().put_spare(index, rows, scales);
}

/// From memory where they are there, else from the file.
Status TablePatcher::add_source(const PlanTable& t, int32_t source, int64_t first, int64_t n,
                                DerivedSums* d) {
  const TableSpec& spec = bundle_.manifest().tables[static_cast<size_t>(source)];
  const kernels::DType stored = stored_type(source);
  const RowHistory::Run run = run_of(source, first);
  std::span<const std::byte> bytes;
  if (run.before >= 0 && run.rows >= n && is_in_memory(source)) {
    bytes_.resize(static_cast<size_t>(n * kernels::row_bytes_of(stored, spec.dim)));
    DPI_RETURN_IF_ERROR(
        store_.handover().read_before(table_of_[static_cast<size_t>(source)], run.before, n, bytes_.data()));
    bytes = bytes_;
  } else {
    DPI_RETURN_IF_ERROR(read_rows(source, first, n, &bytes_));
    bytes = bytes_;
    if (stored != spec.dtype) DPI_RETURN_IF_ERROR(narrower_.narrow(spec, stored, first, &bytes));
  }
  const bool scaled = spec.dtype == kernels::DType::kI8;
  if (scaled) DPI_RETURN_IF_ERROR(read_scales(source, first, n, &scales_));
  decode_rows(spec, stored, n, bytes, scaled ? scales_.data() : nullptr, &rows_);
  add_terms(t, source, rows_.data(), first, n, spec.dim, d);
  return {};
}

Status TablePatcher::read_rows(int32_t source, int64_t first, int64_t n, std::vector<std::byte>* to) const {
  const TableSpec& spec = bundle_.manifest().tables[static_cast<size_t>(source)];
  const auto row_bytes = static_cast<size_t>(kernels::row_bytes_of(spec.dtype, spec.dim));
  to->resize(static_cast<size_t>(n) * row_bytes);
  if (first < spec.rows) return read_file_rows(spec, first, static_cast<size_t>(n), to->data());
  const std::vector<int64_t>& from = pads_[static_cast<size_t>(source)];
  for (int64_t r = 0; r < n; ++r) {
    const int64_t row = from[static_cast<size_t>(first - spec.rows + r)];
    DPI_RETURN_IF_ERROR(read_file_rows(spec, row, 1, to->data() + static_cast<size_t>(r) * row_bytes));
  }
  return {};
}

Status TablePatcher::read_file_rows(const TableSpec& spec, int64_t first, size_t n, std::byte* to) const {
  const auto begin = [this](const std::string& path) {
    return path.empty() ? 0 : bundle_.find(path)->extent.offset;
  };
  const auto read = [this](uint64_t at, std::byte* got, size_t bytes) {
    return bundle_.bytes().read(at, got, bytes);
  };
  if (kernels::row_form(spec.dtype).whole)
    return RowParts(spec.dtype, spec.dim, begin(spec.data), begin(spec.scale), begin(spec.offset))
        .read(first, n, to, read);
  const auto row_bytes = static_cast<size_t>(kernels::row_bytes_of(spec.dtype, spec.dim));
  return read(begin(spec.data) + static_cast<uint64_t>(first) * row_bytes, to, n * row_bytes);
}

Status TablePatcher::read_scales(int32_t source, int64_t first, int64_t n, std::vector<float>* to) const {
  const TableSpec& spec = bundle_.manifest().tables[static_cast<size_t>(source)];
  const uint64_t at = bundle_.find(spec.scale)->extent.offset;
  const auto in_file = static_cast<size_t>(std::clamp<int64_t>(spec.rows - first, 0, n));
  to->resize(static_cast<size_t>(n));
  if (in_file > 0)
    DPI_RETURN_IF_ERROR(bundle_.bytes().read(at + static_cast<uint64_t>(first) * sizeof(float), to->data(),
                                             in_file * sizeof(float)));
  for (size_t r = in_file; r < to->size(); ++r) {
    const int64_t pad = first + static_cast<int64_t>(r) - spec.rows;
    const auto row = static_cast<uint64_t>(pads_[static_cast<size_t>(source)][static_cast<size_t>(pad)]);
    DPI_RETURN_IF_ERROR(bundle_.bytes().read(at + row * sizeof(float), &(*to)[r], sizeof(float)));
  }
  return {};
}

}  // namespace dpi
