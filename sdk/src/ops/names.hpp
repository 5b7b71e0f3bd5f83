// The names that the bundle format gives to the values of attributes (weights/FORMAT.md part 7): read by the
// shape rules, written by the dumps.
#pragma once

#include <string_view>
#include <utility>

#include "ops/ops.hpp"

namespace dpi::ops {

template <class E>
using Named = std::pair<std::string_view, E>;

inline constexpr Named<kernels::Pooling> kPoolings[] = {{"single", kernels::Pooling::kSingle},
                                                        {"none", kernels::Pooling::kNone},
                                                        {"sum", kernels::Pooling::kSum},
                                                        {"mean", kernels::Pooling::kMean},
                                                        {"max", kernels::Pooling::kMax}};
/// The op Mask has all but the last.
inline constexpr Named<kernels::MaskRule> kMaskRules[] = {{"length", kernels::MaskRule::kLength},
                                                          {"id", kernels::MaskRule::kId},
                                                          {"nonzero", kernels::MaskRule::kNonzero},
                                                          {"none", kernels::MaskRule::kNone}};
inline constexpr Named<kernels::PadSide> kPadSides[] = {{"post", kernels::PadSide::kPost},
                                                        {"pre", kernels::PadSide::kPre}};
inline constexpr Named<kernels::BinaryKind> kBinaryKinds[] = {
    {"add", kernels::BinaryKind::kAdd},    {"sub", kernels::BinaryKind::kSub},
    {"mul", kernels::BinaryKind::kMul},    {"div", kernels::BinaryKind::kDiv},
    {"max", kernels::BinaryKind::kMax},    {"min", kernels::BinaryKind::kMin},
    {"lt", kernels::BinaryKind::kLt},      {"le", kernels::BinaryKind::kLe},
    {"gt", kernels::BinaryKind::kGt},      {"ge", kernels::BinaryKind::kGe},
    {"eq", kernels::BinaryKind::kEq},      {"ne", kernels::BinaryKind::kNe},
    {"atan2", kernels::BinaryKind::kAtan2}};
inline constexpr Named<kernels::UnaryKind> kUnaryKinds[] = {{"identity", kernels::UnaryKind::kIdentity},
                                                            {"relu", kernels::UnaryKind::kRelu},
                                                            {"sigmoid", kernels::UnaryKind::kSigmoid},
                                                            {"tanh", kernels::UnaryKind::kTanh},
                                                            {"exp", kernels::UnaryKind::kExp},
                                                            {"log", kernels::UnaryKind::kLog},
                                                            {"abs", kernels::UnaryKind::kAbs},
                                                            {"sqrt", kernels::UnaryKind::kSqrt},
                                                            {"rsqrt", kernels::UnaryKind::kRsqrt},
                                                            {"silu", kernels::UnaryKind::kSilu},
                                                            {"selu", kernels::UnaryKind::kSelu},
                                                            {"gelu_erf", kernels::UnaryKind::kGeluErf},
                                                            {"gelu_tanh", kernels::UnaryKind::kGeluTanh},
                                                            {"softplus", kernels::UnaryKind::kSoftplus},
                                                            {"leaky", kernels::UnaryKind::kLeaky},
                                                            {"elu", kernels::UnaryKind::kElu},
                                                            {"pow", kernels::UnaryKind::kPow},
                                                            {"clamp", kernels::UnaryKind::kClamp},
                                                            {"affine", kernels::UnaryKind::kAffine},
                                                            {"prelu", kernels::UnaryKind::kPrelu},
                                                            {"dice", kernels::UnaryKind::kDice},
                                                            {"sin", kernels::UnaryKind::kSin},
                                                            {"cos", kernels::UnaryKind::kCos},
                                                            {"sign", kernels::UnaryKind::kSign}};
inline constexpr Named<kernels::SoftmaxMask> kSoftmaxMasks[] = {{"none", kernels::SoftmaxMask::kNone},
                                                                {"ninf", kernels::SoftmaxMask::kNinf},
                                                                {"add", kernels::SoftmaxMask::kAdd},
                                                                {"replace", kernels::SoftmaxMask::kReplace}};
inline constexpr Named<kernels::ReduceKind> kReduceKinds[] = {{"sum", kernels::ReduceKind::kSum},
                                                              {"mean", kernels::ReduceKind::kMean},
                                                              {"max", kernels::ReduceKind::kMax},
                                                              {"sumsq", kernels::ReduceKind::kSumSq}};
inline constexpr Named<kernels::ViewKind> kViewKinds[] = {{"reshape", kernels::ViewKind::kReshape},
                                                          {"transpose", kernels::ViewKind::kTranspose},
                                                          {"slice", kernels::ViewKind::kSlice},
                                                          {"index_select", kernels::ViewKind::kIndexSelect},
                                                          {"expand", kernels::ViewKind::kExpand}};
inline constexpr Named<kernels::RecurrentKind> kRecurrentKinds[] = {
    {"gru", kernels::RecurrentKind::kGru},
    {"agru", kernels::RecurrentKind::kAgru},
    {"augru", kernels::RecurrentKind::kAugru},
    {"vecatt", kernels::RecurrentKind::kVecAtt}};
inline constexpr Named<kernels::ResetGate> kResetGates[] = {{"after", kernels::ResetGate::kAfter},
                                                            {"before", kernels::ResetGate::kBefore}};
inline constexpr Named<kernels::RecurrentOutput> kRecurrentOutputs[] = {
    {"last", kernels::RecurrentOutput::kLast}, {"all", kernels::RecurrentOutput::kAll}};
inline constexpr Named<kernels::LinearAxis> kLinearAxes[] = {{"last", kernels::LinearAxis::kLast},
                                                             {"field", kernels::LinearAxis::kField}};

}  // namespace dpi::ops
