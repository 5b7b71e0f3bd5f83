// Little-endian fields of one HDF5 structure, one after another. Reading past its end gives zeros and is
// remembered: a caller reads what the structure should hold and asks ok() before it believes any of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace dpi::hdf5 {

using Bytes = std::span<const std::byte>;

class Cursor {
 public:
  explicit Cursor(Bytes bytes) : left_(bytes) {}

  bool ok() const { return ok_; }
  size_t left() const { return left_.size(); }
  uint8_t u8() { return take<uint8_t>(); }
  uint16_t u16() { return take<uint16_t>(); }
  uint32_t u32() { return take<uint32_t>(); }
  uint64_t u64() { return take<uint64_t>(); }

  /// The next `n` bytes; none when there are fewer.
  Bytes bytes(size_t n) {
    if (n > left_.size()) {
      ok_ = false;
      n = 0;
      left_ = {};
    }
    const Bytes out = left_.first(n);
    left_ = left_.subspan(n);
    return out;
  }
  void skip(size_t n) { (void)bytes(n); }

  /// Are the next bytes these? Steps over them.
  bool starts_with(const void* text, size_t n) {
    const Bytes found = bytes(n);
    return found.size() == n && std::memcmp(found.data(), text, n) == 0;
  }

 private:
  template <class T>
  T take() {
    T v = 0;
    const Bytes found = bytes(sizeof v);
    if (found.size() == sizeof v) std::memcpy(&v, found.data(), sizeof v);  // hosts are little-endian
    return v;
  }

  Bytes left_;
  bool ok_ = true;
};

}  // namespace dpi::hdf5
