// Endpoints over the bundles of make_rows.py, whose rows carry their key and the version that set them, and
// callers that know what every row and score of a version is.
#pragma once

#include <algorithm>
#include <atomic>
#include <random>

#include "support/endpoint_support.hpp"

namespace dpi::test {

constexpr int kVersions = 16, kWideRows = 2048, kHalfRows = 64, kKeys = 128, kRowDim = 8;

inline const Folder* row_versions() {
  static const Folder* const kMade = [] {
    static Folder folder;
    return made_by(source_dir() + "/tests/capi/make_rows.py", folder.path) ? &folder : nullptr;
  }();
  return kMade;
}
inline std::string row_bundle(uint64_t n) {
  return row_versions()->path + "/" + std::to_string(n % kVersions) + ".h5";
}
/// From version n to the next one.
inline std::string row_delta(uint64_t n) {
  return row_versions()->path + "/" + std::to_string(n % kVersions) + ".delta";
}

/// The version that set row r last, as of version n.
inline int64_t tag_of(uint64_t n, int64_t r) {
  const auto version = static_cast<int64_t>(n % kVersions);
  return (version - (version - r + kWideRows) % 4 + kVersions) % kVersions;
}
inline float wide_of(uint64_t n, int64_t r) { return static_cast<float>(tag_of(n, r) * 4096 + r); }
inline float half_of(uint64_t n, int64_t r) { return static_cast<float>(tag_of(n, r) * 64 + r); }
inline float keyed_of(uint64_t n, int64_t j) {
  const bool away = (j + static_cast<int64_t>(n % kVersions)) % 8 == 0;
  return away ? -1.0f : static_cast<float>(tag_of(n, j) * 4096 + j);
}
inline int64_t key_of(int64_t j) { return j * 4096 - (int64_t{1} << 40); }

/// Rows of random numbers.
struct KnownRows {
  std::vector<int64_t> numbers, ids;  // of wide, half and keyed, side by side
  dpi_batch batch{};

  KnownRows(int64_t rows, std::mt19937_64& rng) {
    for (int64_t r = 0; r < rows; ++r)
      add(static_cast<int64_t>(rng() % kWideRows), static_cast<int64_t>(rng() % kHalfRows),
          static_cast<int64_t>(rng() % kKeys));
  }
  KnownRows() = default;
  KnownRows(KnownRows&&) = default;  // no copy: batch points into the vectors
  void add(int64_t wide, int64_t half, int64_t keyed) {
    for (const int64_t number : {wide, half, keyed}) numbers.push_back(number);
    for (const int64_t id : {wide, half, key_of(keyed)}) ids.push_back(id);
    batch.struct_size = sizeof batch;
    batch.rows = static_cast<int64_t>(ids.size() / 3);
    batch.ids = ids.data();
    batch.nnz = static_cast<int64_t>(ids.size());
  }
  float score(uint64_t n, size_t r) const {
    return static_cast<float>(n % kVersions) * 524288.0f +
           2.0f * (wide_of(n, numbers[3 * r]) + half_of(n, numbers[3 * r + 1]) +
                   keyed_of(n, numbers[3 * r + 2]));
  }
  bool right(uint64_t n, const std::vector<float>& scores) const {
    for (size_t r = 0; r < scores.size(); ++r)
      if (!(scores[r] == score(n, r))) return false;
    return true;
  }
};

/// Whether each element of these rows of `table` is what version n has there; false, too, when a call failed.
/// `why`, if given, becomes the text of a lookup that failed, which is then no wrong row.
inline bool right_rows(const dpi_model* m, const char* table, uint64_t n, const std::vector<int64_t>& rows,
                       std::string* why = nullptr) {
  const std::string name = table;
  std::vector<int64_t> keys = rows;
  if (name == "keyed") std::transform(rows.begin(), rows.end(), keys.begin(), key_of);
  std::vector<float> out(rows.size() * kRowDim, -7.0f);
  Error error;
  if (dpi_table_lookup(m, table, keys.data(), keys.size(), out.data(), out.size(), &error) != DPI_OK) {
    if (why != nullptr) *why = error.text();
    return why != nullptr;
  }
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t r = rows[i / kRowDim];
    if (!(out[i] == (name == "wide" ? wide_of(n, r) : name == "half" ? half_of(n, r) : keyed_of(n, r))))
      return false;
  }
  return true;
}

/// The code of one call, the version that says it answered, and whether every score is that version's.
struct RowsAnswer {
  dpi_status code = DPI_E_INTERNAL;
  std::string text;
  uint64_t version = 0;
  bool right = false;
};
inline RowsAnswer ask(dpi_endpoint* e, const KnownRows& rows) {
  std::vector<float> out;
  Answer a = ask(e, rows.batch, &out);
  const bool right = a.code == DPI_OK && rows.right(a.version, out);
  return {a.code, std::move(a.text), a.version, right};
}

}  // namespace dpi::test
