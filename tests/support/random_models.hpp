// Random models for the planner's tests: any mix of features, lookups, layers and interactions that builds a
// valid graph.
#pragma once

#include "support/model_builder.hpp"

namespace dpi::test {

/// The same model for the same seed. Some have shared features, sequences, several heads, dead ends.
ModelBuilder random_model(uint32_t seed);

}  // namespace dpi::test
