// Reader of one feature (FORMAT.md part 4).
#pragma once

#include "bundle/manifest.hpp"
#include "bundle/manifest/read_encoder.hpp"

namespace dpi {

class FeatureReader final : public ObjectReader {
 public:
  Result<FeatureSpec> take();

 private:
  JsonReader* member(std::string_view key, bool is_object) override;

  EncoderReader encoder_;
};

}  // namespace dpi
