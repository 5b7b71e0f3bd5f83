// Threads that hash a bundle's bytes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/host_share.hpp"
#include "base/thread_pool.hpp"
#include "bundle/bundle.hpp"
#include "bundle/content_hash.hpp"
#include "sdk/tools/dpi/shared/loaded_model.hpp"

namespace dpi::tool {

class HashThreads {
 public:
  HashThreads() { check(pool_.grow(threads_), true); }
  HashWorkers workers() const { return {&pool_, threads_}; }
  /// Opens a bundle with its hashes checked, where this build can compute them.
  BundleOptions checking() const {
    BundleOptions options;
    options.workers = workers();
    options.check_hashes = have_content_hash();
    return options;
  }

 private:
  const int32_t threads_ = std::min(usable_processors(), 8);
  mutable ThreadPool pool_;
};

}  // namespace dpi::tool
