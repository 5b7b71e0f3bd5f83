// Gathers what an op needs on the device into one block: one allocation and one copy. Used when ops are
// prepared.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace dpi::backend {

class Packer {
 public:
  /// Where the data will lie from the start of the block, a multiple of 256.
  template <class T>
  size_t add(const T* data, size_t n) {
    constexpr size_t kAlign = 256;
    const size_t at = (bytes_.size() + kAlign - 1) / kAlign * kAlign;
    bytes_.resize(at + std::max<size_t>(n * sizeof(T), 1));
    if (n > 0) std::memcpy(bytes_.data() + at, data, n * sizeof(T));
    return at;
  }
  template <class T>
  size_t add(const std::vector<T>& data) {
    return add(data.data(), data.size());
  }

  /// The block on the current device, the caller's to free. `what`: for the error text.
  Status upload(const std::string& what, void** out) const;
  size_t size() const { return bytes_.size(); }

 private:
  std::vector<char> bytes_;
};

}  // namespace dpi::backend
