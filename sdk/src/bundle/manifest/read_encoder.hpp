// Reader of a feature's encoder (FORMAT.md part 5).
#pragma once

#include <string>

#include "bundle/manifest.hpp"
#include "bundle/manifest/json_lists.hpp"

namespace dpi {

/// The form of a value between steps. A raw value is text until a step makes it something else.
enum class EncoderStage { kText, kNumber, kId };

class StepReader final : public ObjectReader {
 public:
  void start();
  /// Checks keys, types and that the step takes what the one before gives.
  Result<EncoderStep> take(const std::string& where, EncoderStage* stage);

  // What the lists of steps hold: `values` of missing, `boundaries` of buckets.
  ValueList<std::string> texts{kMaxTexts};
  ValueList<double> numbers{kMaxNumbers};
  static constexpr size_t kMaxTexts = 10'000;
  static constexpr size_t kMaxNumbers = 1'000'000;

 private:
  JsonReader* member(std::string_view key, bool is_object) override;
};

class StepListReader final : public JsonReader {
 public:
  static constexpr size_t kMaxSteps = 1000;
  void start();
  void scalar(JsonScalar&& value) override;
  JsonReader* nested(bool is_object) override;
  void nested_end() override;

  std::vector<EncoderStep> steps;
  size_t size = 0;
  EncoderStage stage = EncoderStage::kText;  // what the last step gives
  Status status;  // the text begins with " step 3"; the feature's name comes before it

 private:
  bool begin_entry();
  std::string place() const { return " step " + std::to_string(size - 1); }

  StepReader step_;
  bool in_step_ = false;
  SkipReader skip_;
};

class EncoderReader final : public ObjectReader {
 public:
  void start();
  /// The encoder of a feature whose other members are read already; `where` begins texts: "feature 'age',
  /// encoder".
  Result<EncoderSpec> take(const FeatureSpec& feature, const std::string& where);

 private:
  JsonReader* member(std::string_view key, bool is_object) override;
  Status check_keys(const FeatureSpec& feature, const std::string& where) const;

  StepListReader steps_;
};

}  // namespace dpi
