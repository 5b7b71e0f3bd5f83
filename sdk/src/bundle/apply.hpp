// Deltas applied to a bundle in a file: a new bundle in another file, or in the same one's place.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "bundle/bundle.hpp"
#include "bundle/delta.hpp"

namespace dpi {

/// The first of `deltas`, a chain in its order, that `version` has not had yet; their number = it had all.
/// kBadModel names both versions where the chain has a gap, or starts from another.
Result<size_t> first_to_apply(const ContentHash& version, const std::string& base,
                              const std::vector<std::shared_ptr<const Delta>>& deltas);

/// `base` with all of `deltas`, which first_to_apply has looked at, from number `first` on: bytes of no file,
/// put together as they are read.
Result<std::shared_ptr<Bundle>> open_patched(std::shared_ptr<Bundle> base,
                                             const std::vector<std::shared_ptr<const Delta>>& deltas,
                                             size_t first, const BundleOptions& options);

/// Copies `bundle` to the file `path`, every byte's digest and hash checked on the way (its options must have
/// check_hashes). The file appears by a rename when it is complete and on its device: whatever ends the
/// process meanwhile, there is the old file, or the new one. An unfinished copy may stay as `path`.part; the
/// next call writes over it. kIo where another process is writing it. `progress` as in Bundle::verify_all.
Status write_bundle_file(const std::shared_ptr<Bundle>& bundle, const std::string& path,
                         const BundleOptions& options,
                         const std::function<void(uint64_t, uint64_t)>& progress);

/// The same bytes in a file of `folder` that has no name: it goes when nobody has the bundle any more, or
/// with the process. Every digest is checked on the way, hashes as `options` say. `read` hears of each
/// block's bytes and may end it.
Result<std::shared_ptr<Bundle>> copy_to_unnamed(const std::shared_ptr<Bundle>& bundle,
                                                const std::string& folder, const BundleOptions& options,
                                                const std::function<Status(uint64_t bytes)>& read);

}  // namespace dpi
