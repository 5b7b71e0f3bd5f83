// The hot-key list that a model's options name.
#pragma once

#include <memory>

#include "base/status.hpp"
#include "bundle/bundle.hpp"
#include "runtime/model/options.hpp"
#include "store/hot_keys.hpp"

namespace dpi {

/// Opens and checks it; null when the options name none. Refused are a list where there is no host tier, one
/// that is damaged, and one of other tables than the bundle's.
Result<std::unique_ptr<HotKeyFile>> open_hot_keys(const Bundle& bundle, const ModelOptions& options);

}  // namespace dpi
