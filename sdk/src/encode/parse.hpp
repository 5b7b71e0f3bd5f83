// Numbers of raw text, strictly: what they look like is part of the bundle's meaning, so nothing of the
// locale and no hex, inf or nan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/status.hpp"

namespace dpi {

/// [+-]digits that fit int64.
bool parse_integer(std::string_view text, int64_t* out);

/// [+-]digits[.digits][e[+-]digits]; a value too small for a double is 0, one too large is refused.
bool parse_decimal(std::string_view text, double* out);

/// The text that text steps see for a number: integers without exponent, else the shortest decimal that reads
/// back (as Python's repr). `buffer` has kNumberText bytes.
inline constexpr size_t kNumberText = 400;
std::string_view number_text(double x, char* buffer);

/// Fails for a number that names something and lies at 2^53 or beyond: two integers share such a double.
Status check_identity(double x);

}  // namespace dpi
