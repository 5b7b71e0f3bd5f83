#include "encode/vocabulary_set.hpp"

#include <set>
#include <variant>

namespace dpi {

namespace {

/// Each data set once, however many features name it.
class Sizes {
 public:
  explicit Sizes(const Bundle& bundle) : bundle_(bundle) {}

  void add(const step::VocabString& s) {
    take(s.bytes);
    places(s.offsets, 1);
    take(s.ids);
  }
  template <class Step>
  void add_keys(const Step& s) {
    places(s.keys, 0);
    take(s.ids);
  }
  uint64_t total() const { return total_; }

 private:
  /// The data set's own bytes.
  bool take(const std::string& path) {
    const DataSetInfo* info = bundle_.find(path);
    if (info == nullptr || !seen_.insert(path).second) return false;
    total_ += info->extent.length;
    return true;
  }
  /// Counts the data set and an index over its elements, less `ends`.
  void places(const std::string& path, uint64_t ends) {
    if (!take(path)) return;
    const uint64_t n = bundle_.find(path)->extent.length / sizeof(uint64_t);
    total_ += vocabulary_places_bytes(n > ends ? n - ends : 0);
  }

  const Bundle& bundle_;
  std::set<std::string> seen_;
  uint64_t total_ = 0;
};

}  // namespace

uint64_t VocabularySet::bytes_of(const Bundle& bundle) {
  Sizes sizes(bundle);
  for (const FeatureSpec& f : bundle.manifest().features) {
    for (const EncoderStep& s : f.encoder.steps) {
      if (const auto* texts = std::get_if<step::VocabString>(&s)) sizes.add(*texts);
      if (const auto* integers = std::get_if<step::VocabInt>(&s)) sizes.add_keys(*integers);
      if (const auto* floats = std::get_if<step::VocabFloat>(&s)) sizes.add_keys(*floats);
    }
  }
  return sizes.total();
}

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

uint64_t VocabularySet::bytes() const {
  uint64_t n = 0;
  for (const auto& [path, v] : strings_) n += v != nullptr ? v->bytes() : 0;
  for (const auto& [path, v] : integers_) n += v != nullptr ? v->bytes() : 0;
  for (const auto& [path, v] : ids_) n += v != nullptr ? v->capacity() * sizeof(int64_t) : 0;
  return n;
}

}  // namespace dpi
