// The op table: one row per OpKind with everything that the engine asks about an op, so that no stage
// switches over kinds. The rows are in table.cpp, where the compiler refuses a missing row and a missing
// column; the functions they name are in <op>.cpp. How a device runs an op is the device's own table
// (backend/cpu/cpu_op.cpp, backend/cuda/device/cuda_op.cpp).
#pragma once

#include <array>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "ops/ops.hpp"

namespace dpi {

/// A list of names. "bias?" may be absent; "x..." stands for any number and is the last.
class Names {
 public:
  static constexpr size_t kMost = 9;

  constexpr Names() = default;
  constexpr Names(std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) names_.at(count_++) = name;
  }
  constexpr const std::string_view* begin() const { return names_.data(); }
  constexpr const std::string_view* end() const { return names_.data() + count_; }
  constexpr size_t size() const { return count_; }
  /// The number of positions; 0 when the last name repeats.
  constexpr size_t positions() const {
    return count_ > 0 && names_[count_ - 1].find("...") != std::string_view::npos ? 0 : count_;
  }
  constexpr bool may_lack(size_t i) const { return i >= count_ || names_[i].ends_with('?'); }

 private:
  std::array<std::string_view, kMost> names_{};
  size_t count_ = 0;
};

/// Which float operands may have 16-bit elements, where a device takes such (DPI_BACKEND_HALF): of the
/// outputs only the first, of the inputs all.
enum class Narrow : uint8_t { kNone = 0, kInputs = 1, kOutput = 2, kBoth = 3 };

struct OpForm {
  OpKind kind = OpKind::kInput;
  std::string_view name;

  // In a bundle: weights/FORMAT.md part 7. infer is null where the format has no such op: the plan makes it.
  int32_t min_inputs = 0;
  int32_t max_inputs = 0;
  int64_t since = 0;  // the minor version of the format that has it
  Names keys{};       // of attributes
  Names roles{};      // of parameters
  /// The shape rule: fills attrs, params (in the order of `params`), feature, table and indices of the node;
  /// returns the dims of the value (rank 0 for ids).
  Result<Dims> (*infer)(ops::OpContext& c) = nullptr;
  /// Attributes in the dump of a graph, each " key=value". Values of their default that say nothing are left
  /// out.
  std::string (*graph_text)(const ops::OpText& t) = nullptr;

  // As an op of a plan, prepared by a backend: operands in order. An absent one keeps its position: in a
  // description with dims.rank == 0, in a call with data == nullptr; trailing ones may be left out.
  Names inputs{};
  Names outputs{};
  Names params{};
  size_t rare = 0;  // of the inputs the last ones that an op lists only when a pass has given it any
  Narrow narrow = Narrow::kNone;
  bool folds = false;  // computed once, when the plan is made, if all inputs are constants
  /// The attributes behind dpi_op_desc::attrs, by value; `bare`: there are none, the pointer may be null.
  OpAttrs (*attrs)(const void* attrs) = nullptr;
  bool bare = false;
  Status (*check)(const ops::OpChecker& c) = nullptr;   // shapes, after the checks that all ops share
  std::string (*text)(const ops::OpText& t) = nullptr;  // attributes in the dump of a plan; "" = nothing
  OpWork (*work)(const ops::OpSizes& s) = nullptr;
  /// The definition. Neither allocates nor throws.
  void (*ref)(const OwnedOp& op, const dpi_op_call& call) = nullptr;
};

/// Input and Const are bound by the plan and never reach a backend.
constexpr bool is_executed(OpKind kind) { return kind != OpKind::kInput && kind != OpKind::kConst; }

constexpr size_t kOpCount = static_cast<size_t>(OpKind::kCount);

/// All rows, in the order of OpKind; the row of a kind that exists.
std::span<const OpForm, kOpCount> op_forms();
const OpForm& form_of(OpKind kind);
/// The op of the bundle format with this name, or null.
const OpForm* find_primitive(std::string_view name);
/// "Linear"; "?" for a number that is no kind.
const char* op_name(OpKind kind);

}  // namespace dpi
