// Text from outside (a bundle's name, a cell, a file name) as it may be shown: on a terminal ESC, C1 controls
// and the marks that turn the direction of writing are commands, in a log a line break is a forged line, and
// bytes that are not UTF-8 break whoever reads it. Each such character is spelled out: \n, \x1b, \u009b,
// \xff.
//
// What is spelled out is plain ASCII, so doing it twice changes nothing: it is done wherever text leaves
// (errors of the C API, log, the program's lines, values in quotes) and nobody has to know what was done
// before. It cannot be undone: a name that holds a backslash and "x1b" reads the same. Exact text is in the
// JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dpi {

/// Bytes of the UTF-8 sequence at the front of `s`, which is not empty; 0 when it is none (overlong,
/// surrogate, cut, stray byte).
size_t utf8_length(std::string_view s);
/// The code point of such a sequence.
uint32_t code_point(std::string_view sequence);
/// True if a terminal would act on it instead of showing it: C0, DEL, C1, line separators, marks of
/// direction.
bool is_control(uint32_t code_point);

/// `text` as it may be shown.
std::string printable(std::string_view text);
/// The same into `out`, cut between characters to room - 1 bytes, with a NUL after them. Allocates nothing;
/// room is at least 1.
void copy_printable(std::string_view text, char* out, size_t room);

}  // namespace dpi
