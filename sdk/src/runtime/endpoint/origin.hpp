// The origin of a version: a bundle, and the deltas behind it, as the bytes of one bundle
// (bundle/patch.hpp). The next delta starts from it. Files stay open: they may be replaced and deleted
// meanwhile.
//
// A chain of deltas is folded, that is copied to one file without a name, when it has kLongestChain deltas,
// or when these have more bytes than a quarter of the bundle (and than kLeastFold): reading a row goes
// through every delta of the chain, and each holds a descriptor and 8 to 16 bytes for each row that it names.
// The copy is checked against the hashes of the version, lies where the last delta does and goes with the
// versions that use it, or with the process. Where none can be made the chain goes on, and that is told; at
// kMostChain deltas it does not, since their descriptors are the host's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/rate.hpp"
#include "bundle/bundle.hpp"
#include "bundle/leaf_hashes.hpp"
#include "bundle/row_history.hpp"
#include "runtime/endpoint/update.hpp"
#include "runtime/options/options.hpp"

namespace dpi {

struct Origin {
  static constexpr size_t kLongestChain = 64;
  static constexpr size_t kMostChain = 256;
  static constexpr uint64_t kLeastFold = uint64_t{64} << 20;
  static constexpr size_t kMostPassed = 4096;

  std::shared_ptr<Bundle> bundle;
  std::shared_ptr<LeafHashes> leaves;  // of its data sets; the endpoint's thread makes them while it serves
  std::vector<ContentHash> passed;  // versions that deltas led through before this one; the last kMostPassed
  size_t deltas = 0;                // in the chain
  uint64_t delta_bytes = 0;         // of their files
};

struct OriginWatch {
  std::function<Status()> go_on;                        // what it says instead of yes ends the work
  std::function<void(const std::string& text)> unfold;  // hears why a chain could not be folded
  Rate* rate;
};

struct NextOrigin {
  std::shared_ptr<const Origin> origin;  // null: `serving` has had the update
  std::vector<RowHistory> rows;  // by table of the bundle, from the serving version on. Empty = all is new
};

/// Opens the update's files, each validated whole. What a delta makes is compared with the hashes of the
/// version that it says it makes, before anything is made of it: no digest in it is believed. serving: what
/// deltas without a bundle start from, may be null. Where a delta is at fault `fault` is its place among
/// them. kBadModel names both versions at a gap.
Result<NextOrigin> open_update(const Update& update, const ModelOptions& options, const Origin* serving,
                               const OriginWatch& watch, size_t* fault);

}  // namespace dpi
