/// A block of a backend's memory between two guard bands. What lies in the bands and what the op must not
/// touch is compared byte by byte after the run, on any backend.
#pragma once

#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "backend/abi/dpi_backend.h"

namespace dpi::test {

class GuardBuffer {
 public:
  static constexpr size_t kBand = 256;
  static constexpr uint8_t kPattern = 0xA5;

  /// `bytes` at `data()`, which is `offset` bytes away from the alignment of the backend's alloc.
  GuardBuffer(const dpi_backend_api& api, dpi_backend_device* device, size_t bytes, size_t offset,
              int32_t kind)
      : api_(api),
        device_(device),
        kind_(kind),
        begin_(kBand + offset),
        bytes_(bytes),
        image_(bytes + 2 * kBand + offset, kPattern) {
    check(api_.alloc(device_, image_.size(), kind_, &base_, &err_));
  }
  ~GuardBuffer() { api_.free(device_, base_, kind_); }
  GuardBuffer(const GuardBuffer&) = delete;
  GuardBuffer& operator=(const GuardBuffer&) = delete;

  void* data() const { return static_cast<uint8_t*>(base_) + begin_; }
  size_t bytes() const { return bytes_; }
  /// What the block is uploaded with, and after download() what it holds.
  uint8_t* host() { return image_.data() + begin_; }

  void upload() { check(api_.upload(device_, base_, image_.data(), image_.size(), &err_)); }
  void download() {
    before_ = image_;
    check(api_.download(device_, image_.data(), base_, image_.size(), &err_));
  }
  /// After download: does byte `i` of the block hold what was uploaded?
  bool unchanged(size_t i) const { return before_[begin_ + i] == image_[begin_ + i]; }
  bool all_unchanged() const { return before_ == image_; }
  /// After download: the bands are as they were.
  bool bands_intact() const {
    return std::memcmp(before_.data(), image_.data(), begin_) == 0 &&
           std::memcmp(before_.data() + begin_ + bytes_, image_.data() + begin_ + bytes_, kBand) == 0;
  }

 private:
  void check(int32_t code) const {
    if (code != 0) throw std::runtime_error(std::string("test buffer: ") + err_.message);
  }

  const dpi_backend_api& api_;
  dpi_backend_device* device_;
  int32_t kind_;
  size_t begin_;
  size_t bytes_;
  void* base_ = nullptr;
  mutable dpi_backend_error err_{};
  std::vector<uint8_t> image_;
  std::vector<uint8_t> before_;
};

}  // namespace dpi::test
