// Attention: softmax(scale q k^T) v of several heads, over the fields of a row (AutoInt) or over the
// positions of a short sequence (a transformer block); positions that a mask leaves out are not computed. Not
// in the format: the plan makes it of MatMul, Softmax and MatMul.
#pragma once

#include <dpi/kernels/softmax.hpp>

namespace dpi::kernels {

/// More keys than this stay with the products and the softmax that the op stands for.
inline constexpr int64_t kMaxAttentionKeys = 512;
/// A value of a mask of kAdd and kReplace so far below every score that what it is given to comes out as 0.
inline constexpr float kFarBelow = -1e8f;

/// Where the numbers of one operand lie in its row: column c of position i of head h at
/// first + h head + i position + c.
struct HeadLayout {
  int64_t first = 0;
  int64_t head = 0;
  int64_t position = 0;

  constexpr int64_t at(int64_t h, int64_t i) const { return first + h * head + i * position; }
};

struct AttentionAttrs {
  int64_t heads = 1;
  int64_t queries = 1;
  int64_t keys = 1;
  int64_t dim = 1;        // columns of a query and of a key
  int64_t value_dim = 1;  // columns of a value and of a result
  HeadLayout q;
  HeadLayout k;
  HeadLayout v;
  HeadLayout y;
  float scale = 1;
  SoftmaxMask mask_mode = SoftmaxMask::kNone;
  float value = -1e9f;     // as SoftmaxAttrs
  int64_t mask_head = 0;   // of the mask: from a head to the next, and
  int64_t mask_query = 0;  // from a query to the next; 0: the same for all
  int32_t counted = 0;     // 1: queries are the keys' positions, and those that the mask leaves out give 0
};

/// q, k, v: [rows, ..], read where their layouts say. dst: [rows, ..], its layout reaches every number once;
/// aliases nothing. mask: [rows, ..], keys of one query side by side, 1 or 0; data null with kNone. The
/// definition is MatMul (alpha = scale), Softmax over the keys, MatMul; cpu leaves keys out that the mask
/// leaves out, where they come out as 0: with kNinf, or with a value of kFarBelow or less and any key of the
/// row left. So a key that is left out may hold anything, NaN too, and scores beyond 1e7 are not foreseen.
/// counted (keys == queries, a mask with both steps 0): what is left out is not read as a query either.
/// scratch: in cpu only.
struct AttentionArgs {
  AttentionAttrs attrs;
  Tensor q;
  Tensor k;
  Tensor v;
  Tensor mask;
  Tensor dst;
  void* scratch = nullptr;
};

namespace ref {
void attention(const AttentionArgs& a);
}
namespace cuda {
int attention(const AttentionArgs& a, void* stream);
}

}  // namespace dpi::kernels
