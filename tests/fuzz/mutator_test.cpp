// The mutator of bundles: what it makes gets past the seal nearly always, loads often enough to be worth a
// run, and differs from what it was made of.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "bundle/bundle.hpp"
#include "bundle/byte_source.hpp"
#include "bundle/metadata.hpp"
#include "fuzz/bundle_image.hpp"
#include "fuzz/bundle_mutator.hpp"
#include "support/source_dir.hpp"

namespace dpi::fuzz::mutator_test {
namespace {

constexpr uint32_t kRounds = 400;
constexpr size_t kMost = 1 << 16;

Image small() {
  std::ifstream in(test::source_dir() + "/tests/bundle/data/small.h5", std::ios::binary);
  REQUIRE(in);
  return Image(std::istreambuf_iterator<char>(in), {});
}

/// In libFuzzer's place: turns a bit over.
size_t flip(uint8_t* data, size_t size, size_t) {
  if (size > 0) data[size / 2] ^= 1;
  return size;
}

bool sealed(std::span<const std::byte> bytes) {
  const auto source = ByteSource::over_memory(bytes);
  auto block = read_user_block(*source);
  return block.ok() && Metadata::read(*source, *block).ok();
}

TEST_CASE("a bundle sealed anew is the bundle") {
  Image image = small();
  const Image before = image;
  reseal(&image);
  CHECK(image == before);
}

TEST_CASE("the walk finds every data set and the manifest") {
  const Image image = small();
  const auto bundle = Bundle::open_memory(std::as_bytes(std::span(image)));
  REQUIRE(bundle.ok());
  const Structures s = structures_of(image);
  CHECK(s.sets.size() == (*bundle)->data_sets().size() + 1);
  CHECK(s.fields.size() > 500);
  const std::string manifest = manifest_of(image, s);
  CHECK(manifest.starts_with("{\"format\":\"dpi-bundle\""));
  Image longer = image;
  REQUIRE(set_manifest(&longer, s, manifest + std::string(1000, ' ')));
  reseal(&longer);
  CHECK(Bundle::open_memory(std::as_bytes(std::span(longer))).ok());
}

TEST_CASE("mutations get past the seal, and some of them load") {
  const Image sound = small();
  uint32_t same = 0, past = 0, read = 0;
  for (uint32_t seed = 1; seed <= kRounds; ++seed) {
    Image image = sound;
    image.resize(kMost);
    image.resize(mutate_bundle(image.data(), sound.size(), kMost, seed, flip));
    const auto bytes = std::as_bytes(std::span(image));
    same += image == sound ? 1 : 0;
    past += sealed(bytes) ? 1 : 0;
    read += Bundle::open_memory(bytes).ok() ? 1 : 0;
  }
  MESSAGE(same, " unchanged, ", past, " past the seal, ", read, " read, of ", kRounds);
  CHECK(same < kRounds / 10);
  CHECK(past > kRounds * 8 / 10);  // the rest has an extent or the user block changed
  CHECK(read > kRounds / 10);
  CHECK(read < kRounds);
}

}  // namespace
}  // namespace dpi::fuzz::mutator_test
