#include "store/tiered/admission.hpp"

#include <algorithm>

namespace dpi::tiered {

Admission::Admission(int32_t places)
    : heat_(static_cast<size_t>(places)), sketch_(2 * static_cast<size_t>(std::max(places, 32))) {}

size_t Admission::counter(uint64_t h, int which) const {
  const uint64_t spread = (which == 0 ? h : h ^ h >> 31) * 0x9e3779b97f4a7c15u >> 32;
  return static_cast<size_t>(spread * (2 * sketch_.size()) >> 32);
}

int Admission::count(uint64_t h) const { return std::min(counted(counter(h, 0)), counted(counter(h, 1))); }

/// Both counters of a key to at least `count`: what other keys have counted in one of them already is not
/// counted again.
void Admission::raise(uint64_t h, int count) {
  for (int which = 0; which < 2; ++which) {
    const size_t at = counter(h, which);
    const int more = std::min(count, kMostCounted) - counted(at);
    if (more > 0) sketch_[at / 2] = static_cast<uint8_t>(sketch_[at / 2] + (more << (at % 2 * 4)));
  }
}

void Admission::missed(uint64_t h) {
  raise(h, count(h) + 1);
  if (++n_missed_ < 2 * sketch_.size()) return;
  for (uint8_t& two : sketch_) two = two >> 1 & 0x77;
  n_missed_ = 0;
}

void Admission::admit(uint64_t h, int32_t local_place, uint8_t heat) {
  set_heat(local_place, std::max<int>(heat, count(h)));
}

void Admission::evicted(uint64_t h, int32_t local_place) { raise(h, heat(local_place)); }

}  // namespace dpi::tiered
