// Threads that hash a bundle's bytes for `dpi sign` and `dpi verify`.
#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>

#include "base/thread_pool.hpp"
#include "bundle/content_hash.hpp"
#include "sdk/tools/dpi/shared/loaded_model.hpp"

namespace dpi::tool {

class HashThreads {
 public:
  HashThreads() { check(pool_.grow(threads_), true); }
  HashWorkers workers() const { return {&pool_, threads_}; }

 private:
  const int32_t threads_ = static_cast<int32_t>(std::clamp(std::thread::hardware_concurrency(), 1u, 8u));
  mutable ThreadPool pool_;
};

}  // namespace dpi::tool
