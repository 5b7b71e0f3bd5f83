#include "encode/vocabulary.hpp"

#include <xxhash.h>

#include <bit>

#include "base/text.hpp"

namespace dpi {

namespace {

size_t place_count(size_t entries) { return std::bit_ceil(entries * 2 + 2); }

/// Walks from the hash's place until `stop(entry)` or an empty place; gives the place.
template <class Stop>
size_t probe(const std::vector<uint32_t>& places, uint64_t hash, Stop&& stop) {
  const size_t mask = places.size() - 1;
  size_t at = static_cast<size_t>(hash) & mask;
  while (places[at] != 0 && !stop(places[at] - 1)) at = (at + 1) & mask;
  return at;
}

uint64_t hash_of(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

uint64_t hash_of(int64_t key) {
  auto x = static_cast<uint64_t>(key);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

}  // namespace

std::string_view StringVocabulary::entry(uint32_t k) const {
  return {reinterpret_cast<const char*>(bytes_.data()) + offsets_[k],
          static_cast<size_t>(offsets_[k + 1] - offsets_[k])};
}

Result<StringVocabulary> StringVocabulary::build(std::vector<uint8_t> bytes,
                                                 const std::vector<uint64_t>& offsets,
                                                 std::vector<int64_t> ids, int64_t first_id) {
  if (offsets.empty() || offsets.front() != 0 || offsets.back() != bytes.size()) {
    return bad_model("vocabulary offsets do not span its bytes");
  }
  StringVocabulary v;
  for (size_t k = 0; k + 1 < offsets.size(); ++k) {
    if (offsets[k + 1] < offsets[k])
      return bad_model("vocabulary offsets decrease at entry " + std::to_string(k));
  }
  v.bytes_ = std::move(bytes);
  v.offsets_ = offsets;
  v.ids_ = std::move(ids);
  v.first_id_ = first_id;
  v.places_.assign(place_count(v.size()), 0);
  for (uint32_t k = 0; k < v.size(); ++k) {
    const std::string_view text = v.entry(k);
    const size_t at = probe(v.places_, hash_of(text), [&](uint32_t other) { return v.entry(other) == text; });
    if (v.places_[at] != 0) return bad_model("vocabulary entry " + in_quotes(text) + " appears twice");
    v.places_[at] = k + 1;
  }
  return v;
}

bool StringVocabulary::find(std::string_view text, int64_t* id) const {
  const size_t at = probe(places_, hash_of(text), [&](uint32_t k) { return entry(k) == text; });
  if (places_[at] == 0) return false;
  const uint32_t k = places_[at] - 1;
  *id = ids_.empty() ? first_id_ + k : ids_[k];
  return true;
}

Result<IntVocabulary> IntVocabulary::build(std::vector<int64_t> keys, std::vector<int64_t> ids,
                                           int64_t first_id) {
  IntVocabulary v;
  v.keys_ = std::move(keys);
  v.ids_ = std::move(ids);
  v.first_id_ = first_id;
  v.places_.assign(place_count(v.keys_.size()), 0);
  for (uint32_t k = 0; k < v.keys_.size(); ++k) {
    const int64_t key = v.keys_[k];
    const size_t at = probe(v.places_, hash_of(key), [&](uint32_t other) { return v.keys_[other] == key; });
    if (v.places_[at] != 0) return bad_model("vocabulary key " + std::to_string(key) + " appears twice");
    v.places_[at] = k + 1;
  }
  return v;
}

bool IntVocabulary::find(int64_t key, int64_t* id) const {
  const size_t at = probe(places_, hash_of(key), [&](uint32_t k) { return keys_[k] == key; });
  if (places_[at] == 0) return false;
  const uint32_t k = places_[at] - 1;
  *id = ids_.empty() ? first_id_ + k : ids_[k];
  return true;
}

}  // namespace dpi
