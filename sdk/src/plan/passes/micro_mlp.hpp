// The levels of micro-MLPs in a plan: products whose weights are columns of a looked-up row. What
// recognise_co_action.cpp puts together.
#pragma once

#include <utility>
#include <vector>

#include <dpi/kernels/co_action.hpp>

#include "plan/analysis/elements.hpp"

namespace dpi::plan {

/// The input of a first level: for each of its rows, position and order of the feed, of which columns
/// [first, first + dim) are taken. Joined: a row is all orders side by side.
struct MicroFeed {
  struct Row {
    int64_t position = 0;
    int32_t order = 1;
  };

  int32_t value = -1;    // an Embed's rows position by position, or one row of floats
  bool history = false;  // which of both
  int64_t positions = 1;
  int64_t first = 0;
  int64_t dim = 0;
  int32_t joined = 0;  // number of orders, 0 = not joined
  std::vector<Row> rows;
};

/// activation(x W + b) for a matrix x of rows.
struct MicroProduct {
  int32_t previous = -1;  // MicroProduct whose value is x, -1 = the feed
  int32_t position = 0;   // of the level, from 0
  int32_t value = -1;
  std::vector<int32_t> values;  // it, and what it is made of: nothing else may read these
  int32_t induction = -1;       // the looked-up row
  int64_t inputs = 0;
  int64_t outputs = 0;
  int64_t weight = 0;  // columns of the row
  int64_t bias = -1;
  kernels::UnaryAttrs act;
  MicroFeed feed;  // of the first level
};

class MicroProducts {
 public:
  MicroProducts(const Plan& plan, const Index& index, Elements& elements);

  bool empty() const { return all_.empty(); }
  const MicroProduct& operator[](int32_t i) const { return all_[static_cast<size_t>(i)]; }
  /// The product that ends with this value, or -1.
  int32_t ending_in(int32_t value) const { return by_value_[static_cast<size_t>(value)]; }
  /// The first level before product i.
  const MicroProduct& first_of(int32_t i) const;

 private:
  void add(const PlanOp& op);
  bool take_weights(const PlanOp& op, MicroProduct& m);
  bool take_input(const PlanOp& op, MicroProduct& m);
  bool take_feed(const std::vector<Element>& x, MicroProduct& m);
  void take_bias(MicroProduct& m);
  void take_activation(MicroProduct& m);
  const PlanOp* only_user(int32_t value) const;
  const PlanOp* producer(int32_t value) const;

  const Plan& p_;
  const Index& ix_;
  Elements& elements_;
  std::vector<MicroProduct> all_;
  std::vector<int32_t> by_value_;
};

/// The elements of all are those of one value side by side; gives the first, or null.
const Element* side_by_side(const std::vector<Element>* all);

/// Functions of one number: no parameters per channel.
bool is_plain_function(const PlanOp& op);

}  // namespace dpi::plan
