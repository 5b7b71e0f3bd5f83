// Raw values of a feature without encoder: ids and floats as they are, read as strictly as encoders read
// them.
#pragma once

#include <string_view>

#include "encode/encoder.hpp"

namespace dpi {

/// `gives_id`: an integer, else a decimal number rounded once to float32. Empty text = missing.
Status plain_text(std::string_view text, bool gives_id, EncodedValue* out);
/// NaN = missing. An id needs an integer below 2^53 in magnitude.
Status plain_number(double number, bool gives_id, EncodedValue* out);

}  // namespace dpi
