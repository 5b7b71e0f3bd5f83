// What every input may end in: a documented status, with a text that can be shown when it is not DPI_OK. All
// else ends the program, as a sanitizer's report does.
#pragma once

#include <dpi/dpi.h>

#include <cstdint>
#include <string_view>

namespace dpi::fuzz {

/// Prints `what` and aborts unless `holds`.
void expect(bool holds, const char* what);

/// One line of UTF-8 without control characters, not empty.
bool is_printable_line(std::string_view text);

/// Ends the program unless the status is one that functions return (neither reserved nor "a defect of the
/// library"), the error says the same code, and its text is a line to show.
void expect_documented(dpi_status status, const dpi_error& error);
/// The same without the error.
void expect_documented(dpi_status status);

/// What became of the inputs so far: how many loaded a model, and how many of them got scores.
struct Tally {
  uint64_t inputs = 0, loaded = 0, predicted = 0;
};
const Tally& tally();
void begin_input();
/// Each counts once for an input.
void mark_loaded();
void mark_predicted();

}  // namespace dpi::fuzz
