// Pieces of error texts. Load-time only: these allocate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace dpi {

/// 'text' in single quotes, cut to 80 bytes, as base/printable.hpp shows it. For strings from outside.
std::string in_quotes(std::string_view text);

/// " (did you mean 'x'?)" of the known word that is nearest by edits (insert, remove, change or swap
/// neighbours), at most one edit for every three letters; empty where none is.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> known);

/// "11 x 8"; "scalar" for no dims.
std::string shape_text(std::span<const int64_t> shape);

/// 0x-prefixed, 16 digits.
std::string hex_text(uint64_t v);

/// Two hex digits a byte, as hashes and keys are shown.
std::string hex_bytes(std::span<const std::byte> bytes);
/// The reverse; false when the text is not exactly two hex digits for each byte of `out`.
bool parse_hex(std::string_view text, std::span<std::byte> out);

/// "No such file or directory (2)" of an errno value.
std::string errno_text(int error);

}  // namespace dpi
