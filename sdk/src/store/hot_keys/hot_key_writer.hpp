// Writes hot-key lists. Who calls it: `dpi store hot-keys`.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "store/hot_keys/hot_keys.hpp"

namespace dpi {

/// Writes a list: a file that appears under its name only when it is complete.
class HotKeyWriter {
 public:
  /// tables: with the `n` that will be added. kIo when it cannot be written.
  static Result<std::unique_ptr<HotKeyWriter>> create(const std::string& path, std::vector<HotTable> tables);
  ~HotKeyWriter();
  HotKeyWriter(const HotKeyWriter&) = delete;
  HotKeyWriter& operator=(const HotKeyWriter&) = delete;

  /// Adds keys of one table after the other, in the tables' order, the hottest of each table first.
  Status add(std::span<const HotKey> keys);
  Status commit();

 private:
  HotKeyWriter() = default;
  Status write(const void* bytes, size_t n);
  Status failed() const;

  struct Digest;
  std::string path_, temporary_;
  std::FILE* file_ = nullptr;
  std::unique_ptr<Digest> digest_;
  uint64_t left_ = 0;  // keys
};

}  // namespace dpi
