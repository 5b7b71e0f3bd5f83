#include <dpi/kernels/embed.hpp>
#include <dpi/kernels/row_decode.hpp>

#include "pool.hpp"

namespace dpi::kernels::ref {
namespace {

// dst: [max_len, dim]; position t holds its id's row, padding holds pad_id's.
void lay_out(const EmbedAttrs& attrs, const Bag& bag, const TableView& table, float* dst) {
  for (int64_t t = 0; t < attrs.max_len; ++t) {
    bool is_padding = false;
    const int32_t id = laid_out_id(bag, attrs.pad_side, attrs.max_len, attrs.pad_id, t, &is_padding);
    decode_row(table, id, dst + t * table.dim);
  }
}

}  // namespace

void embed(const EmbedArgs& a) {
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    const Bag bag = bag_at(a.ids, r);
    float* dst = a.dst.row(r);
    if (a.attrs.pooling == Pooling::kNone) {
      lay_out(a.attrs, bag, a.table, dst);
      continue;
    }
    for (int64_t k = 0; k < a.table.dim; ++k)
      dst[k] = static_cast<float>(pooled_at(a.attrs, bag, a.table, k));
  }
}

}  // namespace dpi::kernels::ref
