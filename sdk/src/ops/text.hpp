// Building blocks of dumps: the names of attribute values and the pieces of a line. Tests hold them fixed.
#pragma once

#include <span>
#include <string>

#include <dpi/kernels/tensor.hpp>

#include "ops/dims.hpp"
#include "ops/ops.hpp"

namespace dpi::ops {

/// Inputs for the text of one op: attributes, the arrays behind them, and the plan's numbers of its inputs
/// (-1 = absent; empty where a graph is dumped).
struct OpText {
  const OpAttrs& attrs;
  const OpArrays& arrays;
  std::span<const int32_t> inputs;

  template <class T>
  const T& as() const {
    return std::get<T>(attrs);
  }
};

const char* unary_name(kernels::UnaryKind kind);
const char* binary_name(kernels::BinaryKind kind);
const char* reduce_name(kernels::ReduceKind kind);
const char* view_name(kernels::ViewKind kind);
const char* recurrent_name(kernels::RecurrentKind kind);
const char* softmax_mask_name(kernels::SoftmaxMask mask);
const char* pooling_name(kernels::Pooling pooling);
const char* mask_name(kernels::MaskRule rule);
const char* pad_side_name(kernels::PadSide side);

/// The value with the shortest decimal form that reads back as the same float.
std::string text_of(float v);
/// " key=value".
std::string field(const char* key, const std::string& value);
std::string field(const char* key, int64_t value);
std::string field(const char* key, float value);
/// A unary function with its scalars: "leaky(0.1)".
std::string function_text(const kernels::UnaryAttrs& a);

}  // namespace dpi::ops
