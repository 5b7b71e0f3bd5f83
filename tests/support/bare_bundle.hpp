/// A bundle of a manifest alone: the base of bundles in memory, which add what they have.
#pragma once

#include <memory>

#include "bundle/bundle.hpp"
#include "bundle/byte_source.hpp"

namespace dpi::test {

class BareBundle : public Bundle {
 public:
  Status read_table(size_t, const BlockSink&) override { return absent(); }
  Status read_table_scale(size_t, std::vector<float>*) override { return absent(); }
  Status read_keys(size_t, const KeySink&) override { return absent(); }
  Result<std::vector<float>> read_param(const std::string&) override { return absent(); }
  Result<std::vector<int64_t>> read_i64(const std::string&) override { return absent(); }
  Result<std::vector<uint64_t>> read_u64(const std::string&) override { return absent(); }
  Result<std::vector<uint8_t>> read_u8(const std::string&) override { return absent(); }
  Result<GoldenRows> read_golden() override { return absent(); }
  Result<GoldenRaw> read_golden_raw() override { return absent(); }
  Status verify_all(const std::function<void(uint64_t, uint64_t)>&) override { return absent(); }
  ByteSource& bytes() const override { return *none_; }
  uint64_t unread_bytes() const override { return 0; }
  Status verify_rest(const std::function<Status(uint64_t)>&) override { return {}; }

 private:
  const std::unique_ptr<ByteSource> none_ = ByteSource::over_memory({});
  static Status absent() { return internal_error("a bundle in memory has no such data"); }
};

}  // namespace dpi::test
