// Embed: embedding lookup of one feature, with optional pooling of its bag (FORMAT.md part 7, Embed).
#pragma once

#include <dpi/kernels/tensor.hpp>

namespace dpi::kernels {

enum class Pooling : int32_t { kSingle = 0, kNone = 1, kSum = 2, kMean = 3, kMax = 4 };
enum class MaskRule : int32_t { kLength = 0, kId = 1, kNonzero = 2, kNone = 3 };
enum class PadSide : int32_t { kPost = 0, kPre = 1 };

struct EmbedAttrs {
  Pooling pooling = Pooling::kSingle;
  MaskRule mask = MaskRule::kLength;
  PadSide pad_side = PadSide::kPost;
  int32_t pad_id = 0;
  int64_t max_len = 0;  // positions when the bag is laid out; 0 = unlimited (pooled forms only)
  float eps = 0;
  float empty = 0;
};

/// dst: [rows, dim], or [rows, max_len, dim] for kNone. Does not alias anything. ids are in range; kSingle
/// has exactly one id per row, bags have at most max_len when that is not 0. Padding that counts
/// (MaskRule::kNone) has weight 1. kNonzero sums the bag's own ids only and divides by the weight of those
/// whose row is not zero. kMean gives zeros when nothing counts, kMax gives `empty`.
struct EmbedArgs {
  EmbedAttrs attrs;
  Bags ids;
  TableView table;
  Tensor dst;
};

namespace ref {
void embed(const EmbedArgs& a);
}
namespace cpu {
void embed(const EmbedArgs& a);
}

}  // namespace dpi::kernels
