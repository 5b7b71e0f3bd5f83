// The text of a schema in record files (weights/RECORD.md part 3): what the ids and floats of a batch mean.
// Two bundles with the same text read a recorded batch alike.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "bundle/bundle.hpp"

namespace dpi {

std::string record_schema(const Bundle& bundle);
/// XXH3-64 of the text.
uint64_t record_schema_digest(std::string_view text);

}  // namespace dpi
