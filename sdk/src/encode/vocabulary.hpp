// Read-only maps from strings or integers to ids: flat open addressing over one byte blob or key array, built
// once at load.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace dpi {

class StringVocabulary {
 public:
  /// Entry k is bytes[offsets[k] .. offsets[k + 1]); its id is ids[k], or first_id + k when ids is empty.
  static Result<StringVocabulary> build(std::vector<uint8_t> bytes, const std::vector<uint64_t>& offsets,
                                        std::vector<int64_t> ids, int64_t first_id);
  /// False when the text is not an entry.
  bool find(std::string_view text, int64_t* id) const;
  size_t size() const { return offsets_.empty() ? 0 : offsets_.size() - 1; }

 private:
  std::string_view entry(uint32_t k) const;

  std::vector<uint8_t> bytes_;
  std::vector<uint64_t> offsets_;
  std::vector<int64_t> ids_;
  std::vector<uint32_t> places_;  // entry + 1, 0 = empty; a power of two, at most half full
  int64_t first_id_ = 0;
};

class IntVocabulary {
 public:
  static Result<IntVocabulary> build(std::vector<int64_t> keys, std::vector<int64_t> ids, int64_t first_id);
  bool find(int64_t key, int64_t* id) const;

 private:
  std::vector<int64_t> keys_;
  std::vector<int64_t> ids_;
  std::vector<uint32_t> places_;
  int64_t first_id_ = 0;
};

}  // namespace dpi
