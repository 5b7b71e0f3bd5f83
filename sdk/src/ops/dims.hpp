// Arithmetic and text of dims, for shape rules, checks and dumps.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>

#include <dpi/kernels/tensor.hpp>

namespace dpi {

using kernels::Dims;

namespace ops {

/// "[3, 4]", and "[3,4]" for one-line dumps.
std::string text_of(const Dims& d);
std::string text_of(std::span<const int64_t> d);
std::string dims_text(const Dims& d);

Dims dims_of(std::initializer_list<int64_t> extents);
/// Dims from a list of extents; nothing when the rank is not 1..5 or an extent is not positive.
std::optional<Dims> dims_from(std::span<const int64_t> extents);

/// Dims without their last `n` axes, and with one more at the end.
Dims drop_last(const Dims& d, int n);
Dims append(Dims d, int64_t extent);
/// `d` with the extent of `axis` (negative: from the end) replaced, or without the axis.
Dims with_extent(Dims d, int axis, int64_t extent);
Dims without_axis(const Dims& d, int axis);
/// The axes 0 .. axis.
Dims up_to_axis(Dims d, int axis);

/// Aligned at the right, extents of 1 repeat; nothing when they do not fit.
std::optional<Dims> broadcast(const Dims& a, const Dims& b);
/// Do the dims of `from` broadcast to exactly `to`?
bool broadcasts_to(const Dims& from, const Dims& to);

}  // namespace ops
}  // namespace dpi
