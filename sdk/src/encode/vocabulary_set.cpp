#include "encode/vocabulary_set.hpp"

namespace dpi {

Result<std::shared_ptr<const StringVocabulary>> VocabularySet::strings(const std::string& bytes,
                                                                       const std::string& offsets) {
  std::shared_ptr<const StringVocabulary>& known = strings_[bytes];
  if (known != nullptr) return known;
  DPI_ASSIGN_OR_RETURN(std::vector<uint8_t> text, bundle_.read_u8(bytes));
  DPI_ASSIGN_OR_RETURN(std::vector<uint64_t> ends, bundle_.read_u64(offsets));
  DPI_ASSIGN_OR_RETURN(StringVocabulary made, StringVocabulary::build(std::move(text), std::move(ends)));
  known = std::make_shared<const StringVocabulary>(std::move(made));
  return known;
}

Result<std::shared_ptr<const IntVocabulary>> VocabularySet::integers(const std::string& keys) {
  std::shared_ptr<const IntVocabulary>& known = integers_[keys];
  if (known != nullptr) return known;
  DPI_ASSIGN_OR_RETURN(std::vector<int64_t> values, bundle_.read_i64(keys));
  DPI_ASSIGN_OR_RETURN(IntVocabulary made, IntVocabulary::build(std::move(values)));
  known = std::make_shared<const IntVocabulary>(std::move(made));
  return known;
}

Result<VocabularyIds> VocabularySet::ids(const std::string& path, int64_t first_id) {
  if (path.empty()) return VocabularyIds{nullptr, first_id};
  std::shared_ptr<const std::vector<int64_t>>& known = ids_[path];
  if (known == nullptr) {
    DPI_ASSIGN_OR_RETURN(std::vector<int64_t> values, bundle_.read_i64(path));
    known = std::make_shared<const std::vector<int64_t>>(std::move(values));
  }
  return VocabularyIds{known, first_id};
}

}  // namespace dpi
