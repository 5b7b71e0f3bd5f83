#include "store/bundle_rows.hpp"

#include <cstring>
#include <utility>

#include <dpi/kernels/narrow.hpp>

#include "base/clock.hpp"
#include "store/tiered/arena.hpp"

namespace dpi {

namespace {

constexpr size_t kLookAtClockEvery = 16;
constexpr int64_t kColumnsAtOnce = 256;

}  // namespace

BundleRows::BundleRows(std::shared_ptr<ByteSource> file, std::string file_name,
                       std::vector<BundleTable> tables, std::unique_ptr<tiered::RowSource> elsewhere)
    : file_(std::move(file)), file_name_(std::move(file_name)), elsewhere_(std::move(elsewhere)) {
  for (BundleTable& t : tables) {
    const int64_t bytes = tiered::row_bytes({t.name, t.rows, t.dim, t.dtype});
    tables_.push_back({std::move(t), bytes, {}});
  }
}

void BundleRows::add_rows(int32_t table, std::span<const std::byte> rows) {
  auto& behind = tables_[static_cast<size_t>(table)].behind;
  behind.insert(behind.end(), rows.begin(), rows.end());
}

Status BundleRows::fetch(const tiered::FetchRequest& request) {
  const Table& t = tables_[static_cast<size_t>(request.table)];
  if (t.spec.elsewhere >= 0) {
    tiered::FetchRequest there = request;
    there.table = t.spec.elsewhere;
    return elsewhere_->fetch(there);
  }
  const auto behind = static_cast<int64_t>(t.behind.size()) / t.row_bytes;
  for (size_t i = 0; i < request.keys.size(); ++i) {
    const int64_t row = request.keys[i];
    if (row < 0 || row >= t.spec.rows + behind) continue;
    if (request.deadline_ns != 0 && i % kLookAtClockEvery == 0 && monotonic_ns() >= request.deadline_ns)
      return {Code::kTimeout, "the deadline passed while rows of table '" + t.spec.name + "' were read"};
    if (row >= t.spec.rows) {
      const auto bytes = static_cast<size_t>(t.row_bytes);
      std::memcpy(request.rows[i], t.behind.data() + static_cast<size_t>(row - t.spec.rows) * bytes, bytes);
    } else {
      DPI_RETURN_IF_ERROR(read_row(t, row, request.rows[i]));
    }
    request.found[i / 64] |= uint64_t{1} << (i % 64);
  }
  return {};
}

Status BundleRows::read(const Table& t, int64_t row, uint64_t at, void* to, size_t n) const {
  Status got = file_->read(at, to, n);
  if (got.ok()) return got;
  return std::move(got).within(file_name_ + ": row " + std::to_string(row) + " of table '" + t.spec.name +
                               "'");
}

Status BundleRows::read_row(const Table& t, int64_t row, std::byte* to) const {
  const BundleTable& s = t.spec;
  const int64_t in_file = s.dim * kernels::dtype_bytes(s.in_file);
  const uint64_t at = s.offset + static_cast<uint64_t>(row * in_file);
  if (s.dtype == s.in_file) {
    DPI_RETURN_IF_ERROR(read(t, row, at, to, static_cast<size_t>(in_file)));
    if (s.dtype != kernels::DType::kI8) return {};
    return read(t, row, s.scale_offset + static_cast<uint64_t>(row) * sizeof(float),
                to + tiered::scale_at(s.dim), sizeof(float));
  }
  float wide[kColumnsAtOnce];
  for (int64_t c = 0; c < s.dim; c += kColumnsAtOnce) {
    const auto n = static_cast<size_t>(std::min<int64_t>(kColumnsAtOnce, s.dim - c));
    DPI_RETURN_IF_ERROR(read(t, row, at + static_cast<uint64_t>(c) * sizeof(float), wide, n * sizeof(float)));
    for (size_t i = 0; i < n; ++i) {
      const uint16_t narrow =
          s.dtype == kernels::DType::kF16 ? kernels::float_to_half(wide[i]) : kernels::float_to_bf16(wide[i]);
      std::memcpy(to + (static_cast<size_t>(c) + i) * sizeof narrow, &narrow, sizeof narrow);
    }
  }
  return {};
}

}  // namespace dpi
