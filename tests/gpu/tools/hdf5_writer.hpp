// Writes the HDF5 part of a bundle (weights/FORMAT.md part 2) without HDF5's library: the programs of the
// pack run where there is none. Data sets go to the file as they come; finish() writes what describes them.
// Made for make_bundle.cpp; bundles for anything but benchmarks come from the exporter, which uses HDF5's
// library.
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace dpi::gpu {

class Hdf5Writer {
 public:
  enum class Type { kU8, kF32 };

  /// Leaves `block` bytes for the user block.
  Hdf5Writer(const std::string& path, uint64_t block);

  /// A data set at /name or /group/name; returns its place in the file.
  uint64_t put(const std::string& path, Type type, const std::vector<uint64_t>& dims, const void* data);

  /// Writes groups and superblock and closes the file; returns its length.
  uint64_t finish();

 private:
  struct Group {
    uint64_t header = 0, tree = 0, heap = 0;
  };
  using Members = std::map<std::string, uint64_t>;  // name -> address of the object header

  uint64_t append(const std::vector<char>& bytes);  // returns its address
  uint64_t align(uint64_t to);                      // returns the address
  Group write_group(const Members& members, uint64_t leaf_rank);
  void write_superblock(uint64_t root, uint64_t leaf_rank);

  std::ofstream out_;
  uint64_t block_;
  uint64_t end_ = 0;  // address behind what is written; addresses count from the end of the user block
  std::map<std::string, Members> groups_;  // "" is the root
};

}  // namespace dpi::gpu
