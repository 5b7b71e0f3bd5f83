// Parts of hoist_history.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "plan/analysis/zero_one.hpp"
#include "plan/passes/share_rows.hpp"

namespace dpi::plan {

/// Positions [0, at) are the history, [at, total) the candidates of a row.
struct Cut {
  int64_t at = 0;
  int64_t total = 0;

  auto operator<=>(const Cut&) const = default;
};

/// A value of positions in two: the history's, of shared rows, and the others. Either may be constant.
struct Halves {
  int32_t history = -1;
  int32_t rest = -1;
};

/// True if no query of the history reads a key or a value behind it, whatever a row holds.
bool history_sees_itself(ZeroOne& bits, const PlanOp& attention, const Cut& cut);

/// The attributes of queries behind a history that read its keys from shared rows; nothing where the format's
/// op cannot say the same.
std::optional<kernels::AttentionAttrs> behind_history(ZeroOne& bits, const PlanOp& attention, const Cut& cut,
                                                      bool queries_cut);

}  // namespace dpi::plan
