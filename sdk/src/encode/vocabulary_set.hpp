// The vocabularies of one bundle, each read and indexed once, however many features name it: what they take
// is bounded by the bundle's own size. Needed while encoders are built; those keep what they use alive.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "bundle/bundle.hpp"
#include "encode/vocabulary.hpp"

namespace dpi {

class VocabularySet {
 public:
  /// Bytes that all vocabularies of a bundle will take, known from its data sets alone.
  static uint64_t bytes_of(const Bundle& bundle);

  /// The bundle must outlive this object.
  explicit VocabularySet(Bundle& bundle) : bundle_(bundle) {}

  Result<std::shared_ptr<const StringVocabulary>> strings(const std::string& bytes,
                                                          const std::string& offsets);
  Result<std::shared_ptr<const IntVocabulary>> integers(const std::string& keys);
  /// An empty path: counted from first_id.
  Result<VocabularyIds> ids(const std::string& path, int64_t first_id);
  /// Memory of those that were read.
  uint64_t bytes() const;

 private:
  Bundle& bundle_;
  // By the path of bytes or keys; the bundle's reader has checked that no bytes have two data sets of
  // offsets.
  std::map<std::string, std::shared_ptr<const StringVocabulary>> strings_;
  std::map<std::string, std::shared_ptr<const IntVocabulary>> integers_;
  std::map<std::string, std::shared_ptr<const std::vector<int64_t>>> ids_;
};

}  // namespace dpi
