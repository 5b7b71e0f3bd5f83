// Read-only maps from strings or integers to the numbers of their entries: flat open addressing over one byte
// blob or key array, built once at load. Places are chosen by a hash with a seed of this process, so that
// nobody can write keys that meet in one place.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace dpi {

class StringVocabulary {
 public:
  /// Entry k is bytes[offsets[k] .. offsets[k + 1]).
  static Result<StringVocabulary> build(std::vector<uint8_t> bytes, std::vector<uint64_t> offsets);
  /// False when the text is not an entry.
  bool find(std::string_view text, uint32_t* entry) const;
  size_t size() const { return offsets_.empty() ? 0 : offsets_.size() - 1; }
  size_t bytes() const {
    return bytes_.capacity() + offsets_.capacity() * sizeof(uint64_t) + places_.capacity() * sizeof(uint32_t);
  }

 private:
  std::string_view entry(uint32_t k) const;

  std::vector<uint8_t> bytes_;
  std::vector<uint64_t> offsets_;
  std::vector<uint32_t> places_;  // entry + 1, 0 = empty; a power of two, at most half full
  uint64_t seed_ = 0;
};

class IntVocabulary {
 public:
  static Result<IntVocabulary> build(std::vector<int64_t> keys);
  bool find(int64_t key, uint32_t* entry) const;
  const std::vector<int64_t>& keys() const { return keys_; }
  size_t bytes() const { return keys_.capacity() * sizeof(int64_t) + places_.capacity() * sizeof(uint32_t); }

 private:
  std::vector<int64_t> keys_;
  std::vector<uint32_t> places_;
  uint64_t seed_ = 0;
};

/// Bytes of the places of so many entries.
size_t vocabulary_places_bytes(size_t entries);

/// The ids of a vocabulary's entries: stated one by one, or counted from first_id.
struct VocabularyIds {
  std::shared_ptr<const std::vector<int64_t>> stated;  // null = counted
  int64_t first_id = 0;
  int64_t of(uint32_t entry) const { return stated == nullptr ? first_id + entry : (*stated)[entry]; }
};

}  // namespace dpi
