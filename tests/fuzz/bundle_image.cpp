#include "fuzz/bundle_image.hpp"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "bundle/content_hash.hpp"
#include "bundle/user_block.hpp"

namespace dpi::fuzz {
namespace {

using Form = UserBlockForm;
constexpr size_t kMaxBlock = size_t{1} << 20;

size_t block_bytes(const Image& image) {
  const uint64_t u = number_at(image, 16, 8);
  return u >= Form::kExtents && u <= kMaxBlock && u <= image.size() ? static_cast<size_t>(u) : 0;
}

/// Calls fn(begin, end) for each run of bytes from `begin` on that lies in no extent.
template <class Fn>
void for_each_gap(const Image& image, size_t begin, const std::vector<ImageExtent>& extents, Fn fn) {
  for (const ImageExtent& e : extents) {
    fn(begin, e.offset);
    begin = e.offset + e.length;
  }
  fn(begin, image.size());
}

void put_hash(Image* image, size_t at, TreeHash::Domain domain, size_t begin,
              const std::vector<ImageExtent>& without) {
  auto hash = TreeHash::create(domain);
  if (!hash.ok()) return;
  for_each_gap(*image, begin, without, [&](size_t from, size_t to) {
    hash->add(std::as_bytes(std::span(*image).subspan(from, to - from)));
  });
  const ContentHash sum = hash->finish();
  std::memcpy(image->data() + at, sum.data(), sum.size());
}

void seal_extent(Image* image, const ImageExtent& e) {
  put_number(image, e.entry + 16, 8, XXH3_64bits(image->data() + e.offset, e.length));
  auto hash = TreeHash::create(TreeHash::kData);
  if (!hash.ok()) return;
  hash->add(std::as_bytes(std::span(*image).subspan(e.offset, e.length)));
  const ContentHash sum = hash->finish();
  std::memcpy(image->data() + e.entry + 24, sum.data(), sum.size());
}

}  // namespace

uint64_t number_at(const Image& image, size_t at, size_t bytes) {
  uint64_t v = 0;
  if (bytes <= sizeof v && at <= image.size() && image.size() - at >= bytes)
    std::memcpy(&v, image.data() + at, bytes);
  return v;
}

void put_number(Image* image, size_t at, size_t bytes, uint64_t value) {
  if (bytes <= sizeof value && at <= image->size() && image->size() - at >= bytes)
    std::memcpy(image->data() + at, &value, bytes);
}

std::vector<ImageExtent> extents_of(const Image& image) {
  std::vector<ImageExtent> out;
  const size_t block = block_bytes(image);
  size_t from = block;
  for (uint64_t i = 0; i < number_at(image, 32, 8); ++i) {
    const size_t entry = Form::kExtents + Form::kExtentBytes * i;
    if (entry + Form::kExtentBytes > block) break;
    const uint64_t offset = number_at(image, entry, 8), length = number_at(image, entry + 8, 8);
    if (offset < from || offset > image.size() || length > image.size() - offset) break;
    out.push_back({entry, static_cast<size_t>(offset), static_cast<size_t>(length)});
    from = out.back().offset + out.back().length;
  }
  return out;
}

bool set_manifest(Image* image, const Structures& structures, std::string_view text) {
  const size_t base = block_bytes(*image);
  const auto found = std::find_if(structures.sets.begin(), structures.sets.end(),
                                  [](const DataSetPlaces& s) { return s.path == "/manifest"; });
  if (base == 0 || found == structures.sets.end() || found->layout == 0 || found->dataspace == 0)
    return false;
  const size_t address_at = found->layout + 2, size_at = found->layout + 10, dim_at = found->dataspace + 8;
  const uint64_t old_size = number_at(*image, size_at, 8);
  uint64_t begin = base + number_at(*image, address_at, 8);
  if (begin > image->size() || old_size > image->size() - begin) return false;
  const size_t old_end = image->size();
  if (begin + old_size == image->size()) {
    image->resize(begin);
  } else {
    std::fill_n(image->begin() + static_cast<ptrdiff_t>(begin), old_size, uint8_t{0});
    image->resize((image->size() + 7) / 8 * 8);
    begin = image->size();
  }
  image->insert(image->end(), text.begin(), text.end());
  put_number(image, address_at, 8, begin - base);
  put_number(image, size_at, 8, text.size());
  put_number(image, dim_at, 8, text.size());
  const bool has_largest = (number_at(*image, found->dataspace + 2, 1) & 1) != 0;
  if (has_largest) put_number(image, dim_at + 8, 8, text.size());
  const size_t eof_at = base + 40;  // of the superblock
  put_number(image, eof_at, 8, number_at(*image, eof_at, 8) + image->size() - old_end);
  return true;
}

void reseal(Image* image) {
  const size_t block = block_bytes(*image);
  if (block == 0) return;
  put_number(image, 24, 8, image->size());
  const std::vector<ImageExtent> extents = extents_of(*image);
  for (const ImageExtent& e : extents) seal_extent(image, e);
  put_hash(image, Form::kMetadataHash, TreeHash::kMetadata, block, extents);
  Image head(image->begin(), image->begin() + static_cast<ptrdiff_t>(block));
  std::fill_n(head.begin() + Form::kDigest, 8, uint8_t{0});
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
  XXH3_64bits_reset(state.get());
  XXH3_64bits_update(state.get(), head.data(), head.size());
  for_each_gap(*image, block, extents, [&](size_t from, size_t to) {
    XXH3_64bits_update(state.get(), image->data() + from, to - from);
  });
  put_number(image, Form::kDigest, 8, XXH3_64bits_digest(state.get()));
}

}  // namespace dpi::fuzz
