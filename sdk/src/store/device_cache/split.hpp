// How the sets of a cache are shared out among size classes: by what lookups that were sampled say a further
// byte would win. Pure arithmetic.
//
// A sample is counted under the heat that its row had before it: so what rows of a heat are worth is told by
// samples that did not make them that warm, and rows that were lucky once do not look like hot ones. Rows of
// a heat are counted now and then while samples come in; both sums of one stretch of time go together.
#pragma once

#include <cstdint>
#include <vector>

#include "store/tiered/copied_places.hpp"

namespace dpi::device_cache {

/// Observations of a size class.
struct ClassWorth {
  tiered::CopiedPlaces::Levels seen{};  // samples that met a row of this heat
  tiered::CopiedPlaces::Levels rows{};  // of this heat, summed over `looks`
  int64_t looks = 0;
  int64_t set_bytes = 0;
  uint32_t most_sets = 0;
};

/// The samples that would have met a line, had the class so many sets with its warmest rows in them.
double hits_with(const ClassWorth& c, uint32_t sets);

/// The number of sets of each class, all sets together at most `room` bytes. Goes heat by heat through all
/// classes and takes first the rows with the most hits per byte.
std::vector<uint32_t> split_by_hits(const std::vector<ClassWorth>& classes, int64_t room);

}  // namespace dpi::device_cache
