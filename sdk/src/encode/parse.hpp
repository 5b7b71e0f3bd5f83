// Numbers of raw text, strictly: what they look like is part of the bundle's meaning, so nothing of the
// locale and no hex, inf or nan.
#pragma once

#include <cstdint>
#include <string_view>

namespace dpi {

/// [+-]digits that fit int64.
bool parse_integer(std::string_view text, int64_t* out);

/// [+-]digits[.digits][e[+-]digits]; a value too small for a double is 0, one too large is refused.
bool parse_decimal(std::string_view text, double* out);

/// The text that text steps see for a number: integers without exponent, else the shortest decimal that reads
/// back (as Python's repr). `buffer` has at least 400 bytes.
std::string_view number_text(double x, char* buffer);

}  // namespace dpi
