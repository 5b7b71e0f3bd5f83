// Stated bundles whose rows lie in a file, for models with a host tier.
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "bundle/byte_source.hpp"
#include "runtime/stated_bundle.hpp"

namespace dpi::test {

/// A stated bundle whose rows lie in a file of its own, as the host tier wants them.
class FiledBundle : public StatedBundle {
 public:
  FiledBundle(ModelBuilder& builder, float dense) : StatedBundle(builder, dense) { write(); }
  ~FiledBundle() override { std::filesystem::remove(path_); }
  /// What the tables are now; their hashes stay as they are stated.
  void write() {
    std::ofstream file(path_, std::ios::binary | std::ios::trunc);
    for (size_t t = 0; t < tables.size(); ++t) {
      for (DataSetInfo& d : data_sets_) {
        if (d.path == manifest_.tables[t].data) d.extent.offset = static_cast<uint64_t>(file.tellp());
      }
      const auto bytes = std::as_bytes(std::span(tables[t]));
      file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    }
    file.close();
    REQUIRE(file.good());
    auto opened = ByteSource::open_file(path_);
    REQUIRE(opened.ok());
    file_ = std::move(opened).value();
  }
  std::shared_ptr<ByteSource> file() const override { return file_; }
  void forget_file() { file_.reset(); }
  const std::string& path() const { return path_; }

 private:
  static std::string new_path() {
    static std::atomic<int> n{0};
    return (std::filesystem::temp_directory_path() /
            ("dpi_tier_" + std::to_string(getpid()) + "_" + std::to_string(n++) + ".rows"))
        .string();
  }
  const std::string path_ = new_path();
  std::shared_ptr<ByteSource> file_;
};

}  // namespace dpi::test
