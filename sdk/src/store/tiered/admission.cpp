#include "store/tiered/admission.hpp"

#include <algorithm>
#include <bit>

namespace dpi::tiered {

Admission::Admission(int32_t places)
    : heat_(static_cast<size_t>(places)), sketch_(std::bit_ceil(static_cast<size_t>(std::max(places, 64)))) {}

uint8_t& Admission::counter(uint64_t h, int which) {
  const uint64_t spread = which == 0 ? h >> 20 : h * 0x9e3779b97f4a7c15u >> 24;
  return sketch_[spread & (sketch_.size() - 1)];
}

uint8_t Admission::count(uint64_t h) const {
  auto* self = const_cast<Admission*>(this);
  return std::min(self->counter(h, 0), self->counter(h, 1));
}

void Admission::missed(uint64_t h) {
  if (n_missed_++ % kSampledOneIn != 0) return;
  for (int which = 0; which < 2; ++which) {
    uint8_t& c = counter(h, which);
    c = static_cast<uint8_t>(std::min(255, c + 1));
  }
  if (++n_counted_ < sketch_.size()) return;
  for (uint8_t& c : sketch_) c /= 2;
  n_counted_ = 0;
}

bool Admission::admit(uint64_t h, int32_t local_place, uint8_t heat) {
  // One count may be the miss that brought this row.
  const int known = std::max<int>(heat, count(h) - 1);
  set_heat(local_place, known);
  return known == 0;
}

void Admission::evicted(uint64_t h, int32_t local_place) {
  const uint8_t left = heat(local_place);
  for (int which = 0; which < 2; ++which) {
    uint8_t& c = counter(h, which);
    c = std::max(c, left);
  }
}

}  // namespace dpi::tiered
