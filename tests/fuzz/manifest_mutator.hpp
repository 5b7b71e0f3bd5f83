// Changes to a manifest that keep it JSON, most of them such that it still says something: another op, input,
// shape, rule, step. What is left of it may load or not; both must end well.
#pragma once

#include <random>
#include <string>
#include <string_view>

namespace dpi::fuzz {

using Random = std::minstd_rand;

/// The manifest after one to four changes; empty when `text` is not JSON of a size to change.
std::string mutate_manifest(std::string_view text, Random* random);

}  // namespace dpi::fuzz
