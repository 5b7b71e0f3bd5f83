#include "runtime/request/overlaid_ids.hpp"

namespace dpi {

void overlay_ids(const ResolveSchema& schema, const InputMap& map, int32_t feature, const ResolvedRows& rows,
                 const RowOverlay& overlay, std::byte* block) {
  if (overlay.empty()) return;
  const kernels::Bags bags = input_operand(schema, map, feature, rows, block).bags;
  auto* ids = const_cast<int32_t*>(bags.ids);  // of the block, which is the caller's
  const int64_t n = bags.offsets != nullptr ? bags.offsets[bags.rows] : bags.rows;
  const int64_t stride = bags.offsets != nullptr ? 1 : bags.stride;
  for (int64_t i = 0; i < n; ++i) ids[i * stride] = overlay.place(ids[i * stride]);
}

}  // namespace dpi
