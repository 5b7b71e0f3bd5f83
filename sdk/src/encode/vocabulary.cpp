#include "encode/vocabulary.hpp"

#include <xxhash.h>

#include <bit>

#include "base/seeded_hash.hpp"
#include "base/text.hpp"

namespace dpi {

namespace {

/// With a good seed no entry of 2^31 is further from its place than about 120. More means that the seed was
/// unlucky, so another one is taken.
constexpr size_t kLongestWalk = 512;
constexpr int kSeeds = 8;

size_t place_count(size_t entries) { return std::bit_ceil(entries * 2 + 2); }

/// Walks from the hash's place until `stop(entry)` or an empty place; gives the place.
template <class Stop>
size_t probe(const std::vector<uint32_t>& places, uint64_t hash, Stop&& stop) {
  const size_t mask = places.size() - 1;
  size_t at = static_cast<size_t>(hash) & mask;
  while (places[at] != 0 && !stop(places[at] - 1)) at = (at + 1) & mask;
  return at;
}

uint64_t hash_of(std::string_view text, uint64_t seed) {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

uint64_t hash_of(int64_t key, uint64_t seed) { return seeded_hash(key, seed); }

enum class Placed { kAll, kFar, kTwice };

/// Gives every entry a place. `get(k)` is entry k; *k says which one ended it.
template <class Get>
Placed place_all(uint64_t seed, uint32_t n, const Get& get, std::vector<uint32_t>* places, uint32_t* k) {
  places->assign(place_count(n), 0);
  for (*k = 0; *k < n; ++*k) {
    size_t walked = 0;
    bool twice = false;
    const auto entry = get(*k);
    const size_t at = probe(*places, hash_of(entry, seed), [&](uint32_t other) {
      twice = get(other) == entry;
      return twice || ++walked > kLongestWalk;
    });
    if (twice) return Placed::kTwice;
    if (walked > kLongestWalk) return Placed::kFar;
    (*places)[at] = *k + 1;
  }
  return Placed::kAll;
}

/// Finds a seed under which all entries have places. `*twice` = an entry that is there twice, else the end.
template <class Get>
Status place(uint32_t n, const Get& get, std::vector<uint32_t>* places, uint64_t* seed, uint32_t* twice) {
  *twice = n;
  for (int attempt = 0; attempt < kSeeds; ++attempt) {
    uint32_t k = 0;
    *seed = random_seed();
    const Placed placed = place_all(*seed, n, get, places, &k);
    if (placed == Placed::kTwice) *twice = k;
    if (placed != Placed::kFar) return {};
  }
  return bad_model("a vocabulary whose entries meet in one place under every hash");
}

}  // namespace

size_t vocabulary_places_bytes(size_t entries) { return place_count(entries) * sizeof(uint32_t); }

std::string_view StringVocabulary::entry(uint32_t k) const {
  return {reinterpret_cast<const char*>(bytes_.data()) + offsets_[k],
          static_cast<size_t>(offsets_[k + 1] - offsets_[k])};
}

Result<StringVocabulary> StringVocabulary::build(std::vector<uint8_t> bytes, std::vector<uint64_t> offsets) {
  if (offsets.empty() || offsets.front() != 0 || offsets.back() != bytes.size()) {
    return bad_model("vocabulary offsets do not span its bytes");
  }
  for (size_t k = 0; k + 1 < offsets.size(); ++k) {
    if (offsets[k + 1] < offsets[k])
      return bad_model("vocabulary offsets decrease at entry " + std::to_string(k));
  }
  StringVocabulary v;
  v.bytes_ = std::move(bytes);
  v.offsets_ = std::move(offsets);
  const auto n = static_cast<uint32_t>(v.size());
  uint32_t twice = n;
  DPI_RETURN_IF_ERROR(place(n, [&v](uint32_t k) { return v.entry(k); }, &v.places_, &v.seed_, &twice));
  if (twice < n) return bad_model("vocabulary entry " + in_quotes(v.entry(twice)) + " appears twice");
  return v;
}

bool StringVocabulary::find(std::string_view text, uint32_t* found) const {
  const size_t at = probe(places_, hash_of(text, seed_), [&](uint32_t k) { return entry(k) == text; });
  *found = places_[at] - 1;
  return places_[at] != 0;
}

Result<IntVocabulary> IntVocabulary::build(std::vector<int64_t> keys) {
  IntVocabulary v;
  v.keys_ = std::move(keys);
  const auto n = static_cast<uint32_t>(v.keys_.size());
  uint32_t twice = n;
  DPI_RETURN_IF_ERROR(place(n, [&v](uint32_t k) { return v.keys_[k]; }, &v.places_, &v.seed_, &twice));
  if (twice < n) return bad_model("vocabulary key " + std::to_string(v.keys_[twice]) + " appears twice");
  return v;
}

bool IntVocabulary::find(int64_t key, uint32_t* found) const {
  const size_t at = probe(places_, hash_of(key, seed_), [&](uint32_t k) { return keys_[k] == key; });
  *found = places_[at] - 1;
  return places_[at] != 0;
}

}  // namespace dpi
