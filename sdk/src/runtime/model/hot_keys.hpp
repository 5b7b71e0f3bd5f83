// The hot-key list that a model's options name, or else its bundle brings.
#pragma once

#include <memory>

#include "base/status.hpp"
#include "bundle/bundle.hpp"
#include "runtime/model/options.hpp"
#include "store/hot_keys.hpp"

namespace dpi {

/// A load with these options is to use one.
bool has_hot_keys(const Bundle& bundle, const ModelOptions& options);

/// Opens and checks it; null when there is none. Refused are a list that the options name where there is no
/// host tier, one that is damaged, and one of other tables than the bundle's. Without a tier nobody looks at
/// the list that a bundle brings.
Result<std::unique_ptr<HotKeyFile>> open_hot_keys(const Bundle& bundle, const ModelOptions& options);

}  // namespace dpi
