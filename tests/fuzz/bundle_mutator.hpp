// Changes a bundle where it means something, and seals it again: its manifest, a field of HDF5's structures,
// the list of extents, raw data; now and then nothing but bytes.
#pragma once

#include <vector>

#include "fuzz/bundle_image.hpp"
#include "fuzz/target.hpp"

namespace dpi::fuzz {

/// Some of the inputs that loaded: half of all mutations start from one of them, since a mutation of what is
/// refused is refused nearly always.
class LoadedInputs {
 public:
  void add(InputBytes input, uint32_t random);
  const std::vector<Image>& all() const { return kept_; }

 private:
  static constexpr size_t kMost = 256;
  std::vector<Image> kept_;
};
LoadedInputs& loaded_inputs();

size_t mutate_bundle(uint8_t* data, size_t size, size_t most, uint32_t seed, PlainMutate plain);
/// The same of a delta, whose file has the same form.
size_t mutate_delta(uint8_t* data, size_t size, size_t most, uint32_t seed, PlainMutate plain);

}  // namespace dpi::fuzz
