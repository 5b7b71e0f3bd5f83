// The hot-key list that a model's options name, or else its bundle brings.
#pragma once

#include <memory>

#include "base/status.hpp"
#include "bundle/bundle.hpp"
#include "plan/plan.hpp"
#include "runtime/options/options.hpp"
#include "store/hot_keys/hot_keys.hpp"
#include "store/spread/peer_copies.hpp"

namespace dpi {

/// A load with these options is to use one.
bool has_hot_keys(const Bundle& bundle, const ModelOptions& options);

/// Opens and checks it; null when there is none. Refused are a list that the options name where there is
/// neither a host tier nor copies of rows of other devices, one that is damaged, and one of other tables than
/// the bundle's. Without either nobody looks at the list that a bundle brings.
Result<std::unique_ptr<HotKeyFile>> open_hot_keys(const Bundle& bundle, const ModelOptions& options);

/// Chooses the rows on other devices that get local copies (option store.peer_copy_bytes), by table of the
/// plan. The option without a list is refused.
Result<PeerCopyOptions> peer_copies(const Bundle& bundle, const Plan& plan, const ModelOptions& options);

}  // namespace dpi
