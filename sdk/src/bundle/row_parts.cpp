#include "bundle/row_parts.hpp"

namespace dpi {

RowParts::RowParts(kernels::DType type, int64_t dim, uint64_t rows, uint64_t scales, uint64_t offsets) {
  const kernels::RowForm& form = kernels::row_form(type);
  const auto elements = static_cast<size_t>(kernels::element_row_bytes(type, dim));
  const auto scale = static_cast<size_t>(form.scale_bytes), offset = static_cast<size_t>(form.offset_bytes);
  parts_ = {{{rows, elements, 0}, {scales, scale, elements}, {offsets, offset, elements + scale}}};
}

void RowParts::put(const Part& part, size_t n, const void* from, std::byte* rows) const {
  const auto* bytes = static_cast<const std::byte*>(from);
  const size_t stride = row_bytes();
  for (size_t r = 0; r < n; ++r) std::memcpy(rows + r * stride + part.at, bytes + r * part.bytes, part.bytes);
}

}  // namespace dpi
