// Whole rows from a file: of a type of RowForm::whole, the elements of all rows, their scales and their
// offsets are data sets of their own in the file, and one row here, each part behind the one before.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <dpi/kernels/tensor.hpp>

#include "base/status.hpp"

namespace dpi {

class RowParts {
 public:
  struct Part {
    uint64_t begin = 0;  // of row 0 in the file
    size_t bytes = 0;    // of a row
    size_t at = 0;       // in a whole row
  };

  /// rows, scales, offsets: where the data sets begin in the file; the latter two where the type has them.
  RowParts(kernels::DType type, int64_t dim, uint64_t rows, uint64_t scales, uint64_t offsets);

  size_t row_bytes() const { return parts_[2].at + parts_[2].bytes; }
  /// The elements, the scale, the offset; a part may have no bytes.
  const std::array<Part, 3>& parts() const { return parts_; }
  /// Copies one part of n rows to its places.
  void put(const Part& part, size_t n, const void* from, std::byte* rows) const;

  /// Rows that follow each other. read(position in the file, to, bytes) gives a Status.
  template <class Read>
  Status read(int64_t first, size_t n, std::byte* to, const Read& read) const {
    std::vector<std::byte> some(n > 1 ? n * parts_[0].bytes : 0);
    for (const Part& p : parts_) {
      if (p.bytes == 0) continue;
      some.resize(n > 1 ? std::max(some.size(), n * p.bytes) : 0);
      std::byte* const got = n > 1 ? some.data() : to + p.at;
      DPI_RETURN_IF_ERROR(read(p.begin + static_cast<uint64_t>(first) * p.bytes, got, n * p.bytes));
      if (n > 1) put(p, n, got, to);
    }
    return {};
  }

 private:
  std::array<Part, 3> parts_;
};

}  // namespace dpi
