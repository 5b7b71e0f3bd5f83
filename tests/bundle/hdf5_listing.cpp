// hdf5_listing FILE...: what the engine's reader sees of each bundle's HDF5 part, one JSON object per line,
// for hdf5_tools_test.py.
#define DOCTEST_CONFIG_IMPLEMENT
#include <cstdio>

#include "bundle/hdf5_part.hpp"

namespace dpi::test {
std::string source_dir() { return "."; }

namespace {

void print_set(const DataSetInfo& set) {
  std::printf("{\"path\": \"%s\", \"type\": \"%s\", \"offset\": %llu, \"bytes\": %llu, \"shape\": [",
              set.path.c_str(), type_name(set.type), static_cast<unsigned long long>(set.extent.offset),
              static_cast<unsigned long long>(set.extent.length));
  for (size_t i = 0; i < set.shape.size(); ++i)
    std::printf("%s%lld", i == 0 ? "" : ", ", static_cast<long long>(set.shape[i]));
  std::printf("]}");
}

int list(const char* path) {
  auto source = ByteSource::open_file(path);
  Hdf5Part part;
  const Status s = source.ok() ? read_hdf5_part(**source, &part) : source.status();
  if (!s.ok()) {
    std::fprintf(stderr, "%s: %s\n", path, s.message().c_str());
    return 1;
  }
  std::printf(
      "{\"file\": \"%s\", \"manifest_xxh3\": \"%016llx\", \"bytes_read\": %llu, \"metadata\": %llu, "
      "\"sets\": [",
      path, static_cast<unsigned long long>(XXH3_64bits(part.manifest.data(), part.manifest.size())),
      static_cast<unsigned long long>(part.bytes_read),
      static_cast<unsigned long long>(part.block.metadata_bytes()));
  for (size_t i = 0; i < part.sets.size(); ++i) {
    if (i > 0) std::printf(", ");
    print_set(part.sets[i]);
  }
  std::printf("]}\n");
  return 0;
}

}  // namespace
}  // namespace dpi::test

int main(int argc, char** argv) {
  int failed = 0;
  for (int i = 1; i < argc; ++i) failed += dpi::test::list(argv[i]);
  return failed == 0 ? 0 : 1;
}
