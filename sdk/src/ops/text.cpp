#include "ops/text.hpp"

#include <charconv>

#include "ops/names.hpp"

namespace dpi::ops {
namespace {

template <size_t N, class E>
const char* name_of(const Named<E> (&names)[N], E value) {
  for (const auto& [name, named] : names) {
    if (named == value) return name.data();  // a literal
  }
  return "?";
}

}  // namespace

const char* unary_name(kernels::UnaryKind kind) { return name_of(kUnaryKinds, kind); }
const char* binary_name(kernels::BinaryKind kind) { return name_of(kBinaryKinds, kind); }
const char* reduce_name(kernels::ReduceKind kind) { return name_of(kReduceKinds, kind); }
const char* view_name(kernels::ViewKind kind) { return name_of(kViewKinds, kind); }
const char* recurrent_name(kernels::RecurrentKind kind) { return name_of(kRecurrentKinds, kind); }
const char* softmax_mask_name(kernels::SoftmaxMask mask) { return name_of(kSoftmaxMasks, mask); }
const char* pooling_name(kernels::Pooling pooling) { return name_of(kPoolings, pooling); }
const char* mask_name(kernels::MaskRule rule) { return name_of(kMaskRules, rule); }
const char* pad_side_name(kernels::PadSide side) { return name_of(kPadSides, side); }

std::string text_of(float v) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, v).ptr;
  return {buffer, end};
}

std::string field(const char* key, const std::string& value) {
  return std::string(" ").append(key).append("=") + value;
}
std::string field(const char* key, int64_t value) { return field(key, std::to_string(value)); }
std::string field(const char* key, float value) { return field(key, text_of(value)); }

std::string function_text(const kernels::UnaryAttrs& a) {
  using K = kernels::UnaryKind;
  std::string s = unary_name(a.kind);
  if (a.kind == K::kLeaky || a.kind == K::kElu || a.kind == K::kPow) s += "(" + text_of(a.a) + ")";
  if (a.kind == K::kClamp || (a.kind == K::kAffine && (a.a != 0 || a.b != 0))) {
    s += "(" + text_of(a.a) + "," + text_of(a.b) + ")";
  }
  return s;
}

}  // namespace dpi::ops
