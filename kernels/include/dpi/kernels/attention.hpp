// Attention: weighted sums of values, several heads, in one of two forms.
//   The plan's (streamed = 0): softmax(scale q k^T) v over the fields of a row (AutoInt) or the positions of
//   a short sequence. The plan makes it of MatMul, Softmax and MatMul. The format's (streamed = 1,
//   weights/FORMAT.md part 7): histories of up to 16,384 positions, read in tiles; softmax or SiLU, causal,
//   candidates, a bias.
// Positions that a mask leaves out are not computed.
#pragma once

#include <dpi/kernels/softmax.hpp>

namespace dpi::kernels {

/// More keys than this stay with the products and the softmax that the plan's op stands for. The format's op
/// is read in tiles of so many keys at most.
inline constexpr int64_t kMaxAttentionKeys = 512;
/// Most keys, and most queries, of the format's op, and most heads.
inline constexpr int64_t kMostPositions = 16384;
inline constexpr int64_t kMostHeads = 16;
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

/// A key's weight: softmax over the keys that count, or silu(score) / divisor (HSTU).
enum class AttentionForm : int32_t { kSoftmax = 0, kSilu = 1 };

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
  // Of the format's op only.
  int32_t streamed = 0;
  AttentionForm form = AttentionForm::kSoftmax;
  float divisor = 1;
  int32_t causal = 0;        // 1: query i reads keys 0 to i
  int64_t candidates = 0;    // the last so many keys are read by the query of their own position alone
  int32_t mean_of_none = 0;  // softmax over no key: 0 gives 0, 1 the mean of all values
  int32_t biased = 0;        // 1: bias.at(h, i) + j is added to the score of query i and key j
  HeadLayout bias;           // its step `position` is -1 where the bias depends on j - i alone
  // Where the plan has cut a sequence in two (hoist_history): the first `prefix` keys and values are of
  // shared rows, k and v have the others, and query i stands at position before + i.
  int64_t prefix = 0;
  int64_t before = 0;
};

/// Keys [0, keys_read(a, i)) are those that query i may read, and its own where it is a candidate.
constexpr int64_t keys_read(const AttentionAttrs& a, int64_t query) {
  const int64_t history = a.keys - a.candidates;
  const int64_t position = a.before + query;
  return a.causal != 0 && position + 1 < history ? position + 1 : history;
}
/// The key that only query i reads, or -1.
constexpr int64_t own_key(const AttentionAttrs& a, int64_t query) {
  const int64_t position = a.before + query;
  return position >= a.keys - a.candidates && position < a.keys ? position : -1;
}

/// q, k, v: [rows, ..], read where their layouts say. dst: [rows, ..], its layout reaches every number once;
/// aliases nothing. mask: [rows, ..], keys of one query side by side, 1 or 0; data null with kNone. The
/// definition is MatMul (alpha = scale), Softmax over the keys, MatMul; cpu leaves keys out that the mask
/// leaves out, where they come out as 0: with kNinf, or with a value of kFarBelow or less and any key of the
/// row left. So a key that is left out may hold anything, NaN too, and scores beyond 1e7 are not foreseen.
/// counted (keys == queries, a mask with both steps 0): what is left out is not read as a query either.
/// scratch: in cpu only.
///
/// streamed: mask_mode is kNone or kNinf. A query reads the keys that keys_read and own_key name and the mask
/// does not leave out; a softmax whose scores are all -infinity has no key. Keys that no query reads may hold
/// anything, unless mean_of_none. prefix > 0: key j < prefix of row r is at k.at(h, j) of row row_map[r]
/// (row_map null: row r) of prefix_k, the others at k.at(h, j - prefix) of k, and so the values. causal and
/// candidates then want before = prefix, and queries = keys - prefix.
struct AttentionArgs {
  AttentionAttrs attrs;
  Tensor q;
  Tensor k;
  Tensor v;
  Tensor mask;
  Tensor bias;
  Tensor dst;
  void* scratch = nullptr;
  Tensor prefix_k{};
  Tensor prefix_v{};
  const int32_t* row_map = nullptr;

  /// The key, or the value, j of a head of a row.
  constexpr const float* key(int64_t r, int64_t h, int64_t j) const {
    return at(k, prefix_k, attrs.k, r, h, j);
  }
  constexpr const float* value(int64_t r, int64_t h, int64_t j) const {
    return at(v, prefix_v, attrs.v, r, h, j);
  }

 private:
  constexpr const float* at(const Tensor& own, const Tensor& shared, const HeadLayout& l, int64_t r,
                            int64_t h, int64_t j) const {
    if (j >= attrs.prefix) return own.data + r * own.row_stride + l.at(h, j - attrs.prefix);
    return shared.data + (row_map == nullptr ? r : row_map[r]) * shared.row_stride + l.at(h, j);
  }
};

namespace ref {
void attention(const AttentionArgs& a);
}
namespace cuda {
int attention(const AttentionArgs& a, void* stream);
}

}  // namespace dpi::kernels
