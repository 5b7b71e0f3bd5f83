// Raw value -> id or float, as the bundle says (weights/FORMAT.md part 5). One FeatureEncoder per feature,
// compiled at load; encoding allocates nothing and may run in any number of threads at once.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/status.hpp"
#include "bundle/manifest.hpp"
#include "encode/split.hpp"
#include "encode/vocabulary_set.hpp"

namespace dpi {

/// The result for a raw value, after the feature's rules: out-of-vocabulary is oov_id or default_id already.
struct EncodedValue {
  enum class Kind { kId, kFloat, kMissing };
  Kind kind = Kind::kMissing;
  int64_t id = 0;
  float value = 0;
  bool unknown = false;  // out of the vocabulary; also when the rule is error and encoding failed for it
};

class FeatureEncoder {
 public:
  /// Takes its vocabularies from the set, which reads them when they are first asked for. spec.encoder must
  /// not be empty.
  static Result<FeatureEncoder> build(const FeatureSpec& spec, VocabularySet& vocabularies);
  FeatureEncoder(FeatureEncoder&&) noexcept;
  FeatureEncoder& operator=(FeatureEncoder&&) noexcept;
  ~FeatureEncoder();

  /// Fails with kInvalidArgument and a text that names the value and the step ("'12x' is no number"); the
  /// caller adds row and feature.
  Status encode_text(std::string_view raw, EncodedValue* out) const;
  /// NaN = missing. A number that names something (no step to_float) must be below 2^53 in magnitude.
  Status encode_number(double raw, EncodedValue* out) const;
  /// A text of a sequence as its elements, each for encode_text: split where the schema says so, else the
  /// text itself.
  BagElements elements(std::string_view raw) const;

 private:
  struct Impl;
  explicit FeatureEncoder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dpi
