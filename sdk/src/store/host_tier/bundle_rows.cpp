#include "store/host_tier/bundle_rows.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <dpi/kernels/narrow.hpp>

#include "base/clock.hpp"
#include "bundle/row_parts.hpp"
#include "store/tiered/arena.hpp"

namespace dpi {

namespace {

constexpr size_t kLookAtClockEvery = 16;
constexpr size_t kReadAhead = 32;  // reads under way, which is what disks need to give what they can
constexpr int64_t kColumnsAtOnce = 256;
constexpr int64_t kBytesAtOnce = int64_t{1} << 20;  // that are compared

void narrow(std::span<const float> wide, kernels::DType type, std::byte* to) {
  for (const float v : wide) {
    const uint16_t bits =
        type == kernels::DType::kF16 ? kernels::float_to_half(v) : kernels::float_to_bf16(v);
    std::memcpy(to, &bits, sizeof bits);
    to += sizeof bits;
  }
}

}  // namespace

Status check_narrow(std::span<const float> row, kernels::DType type) {
  const bool half = type == kernels::DType::kF16;
  for (size_t c = 0; c < row.size(); ++c) {
    if (half ? kernels::half_holds(row[c]) : kernels::bf16_holds(row[c])) continue;
    return unsupported("column " + std::to_string(c) + ": " + std::to_string(row[c]) + " is beyond what " +
                       (half ? "fp16" : "bf16") + " holds; load with precision tf32" +
                       (half ? " or bf16" : ""));
  }
  return {};
}

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

bool BundleRows::has(const Table& t, int64_t row) const {
  const auto behind = static_cast<int64_t>(t.behind.size()) / t.row_bytes;
  return row >= 0 && row < t.spec.rows + behind;
}

/// Reads row i of the request if no disk need be waited for.
bool BundleRows::try_row(const tiered::FetchRequest& request, size_t i) const {
  const Table& t = tables_[static_cast<size_t>(request.table)];
  const int64_t row = request.keys[i];
  bool cached = true;
  if (row >= t.spec.rows) {
    const auto bytes = static_cast<size_t>(t.row_bytes);
    std::memcpy(request.rows[i], t.behind.data() + static_cast<size_t>(row - t.spec.rows) * bytes, bytes);
  } else {
    cached = read_row(t, row, request.rows[i], &cached).ok() && cached;
  }
  if (cached) request.found[i / 64] |= uint64_t{1} << (i % 64);
  return cached;
}

Status BundleRows::fetch(const tiered::FetchRequest& request) {
  const Table& t = tables_[static_cast<size_t>(request.table)];
  if (t.spec.elsewhere >= 0) {
    if (t.spec.dtype != t.spec.in_file) return fetch_narrow(t, request);
    tiered::FetchRequest there = request;
    there.table = t.spec.elsewhere;
    return elsewhere_->fetch(there);
  }
  const size_t n = request.keys.size();
  for (size_t i = 0, tried = 0; i < n; ++i) {
    if (request.deadline_ns != 0 && i % kLookAtClockEvery == 0 && monotonic_ns() >= request.deadline_ns)
      return {Code::kTimeout, "the deadline passed while rows of table '" + t.spec.name + "' were read"};
    for (; tried < std::min(n, i + kReadAhead); ++tried) {
      if (has(t, request.keys[tried])) try_row(request, tried);
    }
    const uint64_t bit = uint64_t{1} << (i % 64);
    if (!has(t, request.keys[i]) || (request.found[i / 64] & bit) != 0) continue;
    DPI_RETURN_IF_ERROR(read_row(t, request.keys[i], request.rows[i], nullptr));
    request.found[i / 64] |= bit;
  }
  Status same = file_->unchanged();
  return same.ok() ? Status() : std::move(same).within(file_name_);
}

int64_t BundleRows::sequence(int32_t table) {
  const int32_t there = tables_[static_cast<size_t>(table)].spec.elsewhere;
  return there < 0 ? -1 : elsewhere_->sequence(there);
}

/// Float32 rows from elsewhere, handed on in 16 bits.
Status BundleRows::fetch_narrow(const Table& t, const tiered::FetchRequest& request) {
  const auto dim = static_cast<size_t>(t.spec.dim);
  const size_t n = request.keys.size();
  std::vector<float> wide(n * dim);
  std::vector<std::byte*> rows(n);
  for (size_t i = 0; i < n; ++i) rows[i] = reinterpret_cast<std::byte*>(wide.data() + i * dim);
  tiered::FetchRequest there = request;
  there.table = t.spec.elsewhere;
  there.rows = rows.data();
  Status got = elsewhere_->fetch(there);
  const auto any = [&](const uint64_t* words) {
    return words != nullptr && std::any_of(words, words + (n + 63) / 64, [](uint64_t w) { return w != 0; });
  };
  if (!got.ok() && !any(request.failed)) return got;
  const auto is_set = [](const uint64_t* words, size_t i) { return (words[i / 64] >> (i % 64) & 1) != 0; };
  for (size_t i = 0; i < n; ++i) {
    if (!is_set(request.found, i) || (!got.ok() && is_set(request.failed, i))) continue;
    const std::span<const float> row(wide.data() + i * dim, dim);
    Status fits = check_narrow(row, t.spec.dtype);
    if (!fits.ok()) {
      if (request.failed != nullptr) std::fill_n(request.failed, (n + 63) / 64, 0);
      return std::move(fits).within("key " + std::to_string(request.keys[i]));
    }
    narrow(row, t.spec.dtype, request.rows[i]);
  }
  return got;
}

void BundleRows::fetch_ready(const tiered::FetchRequest& request) {
  const Table& t = tables_[static_cast<size_t>(request.table)];
  if (t.spec.elsewhere >= 0) return;
  size_t cold = 0;
  for (size_t i = 0; i < request.keys.size() && cold < kReadAhead; ++i) {
    if (request.deadline_ns != 0 && i % kLookAtClockEvery == 0 && monotonic_ns() >= request.deadline_ns)
      return;
    if (has(t, request.keys[i])) cold += try_row(request, i) ? 0 : 1;
  }
  if (!file_->unchanged().ok())
    std::fill_n(request.found, (request.keys.size() + 63) / 64, 0);  // fetch() says it
}

Status BundleRows::read(const Table& t, int64_t row, uint64_t at, void* to, size_t n, bool* cached) const {
  if (cached != nullptr) {
    *cached = file_->read_cached(at, to, n) && *cached;
    return {};
  }
  Status got = file_->read(at, to, n);
  if (got.ok()) return got;
  return std::move(got).within(file_name_ + ": row " + std::to_string(row) + " of table '" + t.spec.name +
                               "'");
}

/// 1 where a table's rows lie in the file.
int32_t BundleRows::stores_here() const {
  const auto here = [](const Table& t) { return t.spec.elsewhere < 0; };
  return std::any_of(tables_.begin(), tables_.end(), here) ? 1 : 0;
}

std::vector<StoreName> BundleRows::stores() const {
  std::vector<StoreName> names;
  if (stores_here() > 0) names.push_back({"bundle", file_name_});
  if (elsewhere_ == nullptr) return names;
  for (StoreName& name : elsewhere_->stores()) names.push_back(std::move(name));
  return names;
}

int32_t BundleRows::store_of(int32_t table) const {
  const int32_t elsewhere = tables_[static_cast<size_t>(table)].spec.elsewhere;
  return elsewhere < 0 ? 0 : stores_here() + elsewhere_->store_of(elsewhere);
}

std::vector<StoreNode> BundleRows::nodes(int32_t store) {
  const int32_t there = store - stores_here();
  return there < 0 ? std::vector<StoreNode>() : elsewhere_->nodes(there);
}

int32_t BundleRows::route(int32_t table, int64_t key) {
  const int32_t elsewhere = tables_[static_cast<size_t>(table)].spec.elsewhere;
  return elsewhere < 0 ? 0 : elsewhere_->route(elsewhere, key);
}

Result<int64_t> BundleRows::first_other(int32_t table, int64_t first, int64_t n,
                                        std::span<const std::byte> rows) const {
  const Table& t = tables_[static_cast<size_t>(table)];
  const auto bytes = static_cast<size_t>(t.row_bytes);
  const int64_t at_once = std::max<int64_t>(1, kBytesAtOnce / t.row_bytes);
  std::vector<std::byte> own;
  for (int64_t done = 0; done < n;) {
    const int64_t row = first + done;
    if (!has(t, row)) return row;
    const bool in_file = row < t.spec.rows;
    const auto most = static_cast<int64_t>(t.behind.size()) / t.row_bytes;
    const int64_t here =
        std::min({n - done, at_once, in_file ? t.spec.rows - row : t.spec.rows + most - row});
    own.resize(static_cast<size_t>(here) * bytes);
    if (in_file)
      DPI_RETURN_IF_ERROR(read_rows(t, row, static_cast<size_t>(here), own.data()));
    else
      std::copy_n(t.behind.data() + static_cast<size_t>(row - t.spec.rows) * bytes, own.size(), own.data());
    const std::byte* const theirs = rows.data() + static_cast<size_t>(done) * bytes;
    for (size_t r = 0; r < static_cast<size_t>(here); ++r) {
      if (std::memcmp(own.data() + r * bytes, theirs + r * bytes, bytes) != 0)
        return row + static_cast<int64_t>(r);
    }
    done += here;
  }
  return -1;
}

/// Rows of the file that follow each other: those that are handed on as they are with one read.
Status BundleRows::read_rows(const Table& t, int64_t first, size_t n, std::byte* to) const {
  const auto bytes = static_cast<size_t>(t.row_bytes);
  const BundleTable& s = t.spec;
  if (kernels::row_form(s.dtype).whole) return read_whole(t, first, n, to, nullptr);
  if (s.dtype == s.in_file && s.dtype != kernels::DType::kI8)
    return read(t, first, s.offset + static_cast<uint64_t>(first * t.row_bytes), to, n * bytes, nullptr);
  if (s.dtype == kernels::DType::kI8) {
    const auto dim = static_cast<size_t>(s.dim), at = static_cast<size_t>(tiered::scale_at(s.dim));
    std::vector<std::byte> columns(n * dim), scales(n * sizeof(float));
    DPI_RETURN_IF_ERROR(read(t, first, s.offset + static_cast<uint64_t>(first) * dim, columns.data(),
                             columns.size(), nullptr));
    DPI_RETURN_IF_ERROR(read(t, first, s.scale_offset + static_cast<uint64_t>(first) * sizeof(float),
                             scales.data(), scales.size(), nullptr));
    std::fill_n(to, n * bytes, std::byte{0});
    for (size_t r = 0; r < n; ++r) {
      std::memcpy(to + r * bytes, columns.data() + r * dim, dim);
      std::memcpy(to + r * bytes + at, scales.data() + r * sizeof(float), sizeof(float));
    }
    return {};
  }
  for (size_t r = 0; r < n; ++r)
    DPI_RETURN_IF_ERROR(read_row(t, first + static_cast<int64_t>(r), to + r * bytes, nullptr));
  return {};
}

Status BundleRows::read_whole(const Table& t, int64_t first, size_t n, std::byte* to, bool* cached) const {
  const BundleTable& s = t.spec;
  return RowParts(s.dtype, s.dim, s.offset, s.scale_offset, s.offsets_at)
      .read(first, n, to, [&](uint64_t at, std::byte* got, size_t bytes) {
        return read(t, first, at, got, bytes, cached);
      });
}

Status BundleRows::read_row(const Table& t, int64_t row, std::byte* to, bool* cached) const {
  const BundleTable& s = t.spec;
  if (kernels::row_form(s.dtype).whole) return read_whole(t, row, 1, to, cached);
  const int64_t in_file = kernels::row_bytes_of(s.in_file, s.dim);
  const uint64_t at = s.offset + static_cast<uint64_t>(row * in_file);
  if (s.dtype == s.in_file) {
    DPI_RETURN_IF_ERROR(read(t, row, at, to, static_cast<size_t>(in_file), cached));
    if (s.dtype != kernels::DType::kI8) return {};
    return read(t, row, s.scale_offset + static_cast<uint64_t>(row) * sizeof(float),
                to + tiered::scale_at(s.dim), sizeof(float), cached);
  }
  float wide[kColumnsAtOnce];
  for (int64_t c = 0; c < s.dim; c += kColumnsAtOnce) {
    const auto n = static_cast<size_t>(std::min<int64_t>(kColumnsAtOnce, s.dim - c));
    DPI_RETURN_IF_ERROR(
        read(t, row, at + static_cast<uint64_t>(c) * sizeof(float), wide, n * sizeof(float), cached));
    if (cached != nullptr && !*cached) continue;
    narrow({wide, n}, s.dtype, to + static_cast<size_t>(c) * sizeof(uint16_t));
  }
  return {};
}

}  // namespace dpi
