// CoAction: a micro-MLP whose weights are columns of one feature's row (the induction), applied to another
// feature's row (the feed) or to every item of a history that counts, in several orders, and added up over
// the history (CAN: Bian et al., WSDM 2022, part 4).
//
//   x_p = feed^p, element by element                      p = 1 .. orders
//   h_0 = x_p; joined: [x_1 | x_2 | ..] in front of one micro-MLP
//   h_l = act_l(h_{l-1} W_l + b_l)                        W_l, b_l: columns of the induction
//   dst = sum over the items of the h_l that are collected; mean: divided by the number of items, 0 without
//
// Only items that count are looked up: what padding would give is neither read nor computed.
#pragma once

#include <dpi/kernels/embed.hpp>
#include <dpi/kernels/unary.hpp>

namespace dpi::kernels {

inline constexpr int32_t kMaxMicroLevels = 4;
/// Numbers of one item at one level, all orders together, and of dst: what one item's place has room for.
inline constexpr int32_t kMaxMicroNumbers = 256;

/// One level of the micro-MLP. Where orders have weights of their own, these are those of order 1.
struct MicroLevel {
  int32_t inputs = 0;
  int32_t outputs = 0;
  int32_t weight = 0;    // column of W [inputs, outputs] in the induction, row by row
  int32_t bias = -1;     // column of b [outputs]; -1 = none
  int32_t out_col = -1;  // first column in dst; -1 = the level is not collected
  UnaryAttrs act;        // kinds without channel parameters
};

struct CoActionAttrs {
  MicroLevel levels[kMaxMicroLevels];
  int32_t n_levels = 0;
  int32_t orders = 1;
  int32_t joined = 0;       // 1: one micro-MLP over all orders side by side
  int32_t weight_step = 0;  // columns from an order's weights to those of the next; 0: all have the same
  int32_t out_step = 0;     // the same in dst; 0: orders are added up
  int32_t feed_col = 0;     // columns of a feed row that are read: [feed_col, feed_col + feed_dim)
  int32_t feed_dim = 0;
  int32_t mean = 0;
  MaskRule mask = MaskRule::kLength;  // of a history: kLength, or kId, under which pad_id does not count
  int32_t pad_id = 0;
  int64_t max_len = 0;  // of a history; 0: the feed is one row of floats
  int32_t mapped = 0;   // 1: the history belongs to shared rows
};

/// induction: [rows, ..]. A history: ids, table, and where it is mapped row_map (row r reads the bag of
/// row_map[r]; null = of r). Else x: [rows, ..]. dst: [rows, ..], every column collected from some level and
/// order (check_co_action); aliases nothing.
struct CoActionArgs {
  CoActionAttrs attrs;
  Tensor induction;
  Bags ids;
  TableView table;
  const int32_t* row_map = nullptr;
  Tensor x;
  Tensor dst;
};

namespace ref {
void co_action(const CoActionArgs& a);
}
namespace cpu {
void co_action(const CoActionArgs& a);
}
namespace cuda {
int co_action(const CoActionArgs& a, void* stream);
}

}  // namespace dpi::kernels
