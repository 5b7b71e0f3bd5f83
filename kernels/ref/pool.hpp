// Pooling of one bag, one column at a time: what Embed and MultiLookup share.
#pragma once

#include <dpi/kernels/embed.hpp>

namespace dpi::kernels::ref {

/// The ids of one row.
struct Bag {
  const int32_t* ids = nullptr;
  const float* weights = nullptr;  // null = all 1
  int64_t n = 0;
};

Bag bag_at(const Bags& bags, int64_t row);

/// The id at position `t` of a bag laid out as max_len positions; pad_id where there is padding. *is_padding
/// says which it was.
int32_t laid_out_id(const Bag& bag, PadSide side, int64_t max_len, int32_t pad_id, int64_t t,
                    bool* is_padding);

/// Column `column` of the pooled row (every Pooling but kNone).
double pooled_at(const EmbedAttrs& attrs, const Bag& bag, const TableView& table, int64_t column);

}  // namespace dpi::kernels::ref
