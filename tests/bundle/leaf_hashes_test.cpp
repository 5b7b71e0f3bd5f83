// Hashes of leaves against those that the exporter wrote into data/*.h5: of all data, of what a delta makes,
// and with any byte of a data set changed. Reuse of leaves that stay: tests/capi/endpoint_believed_test.cpp.
#include "bundle/leaf_hashes.hpp"

#include "bundle/bundle_bytes.hpp"
#include "bundle/byte_source.hpp"

namespace dpi::test::leaf_hashes_test {
namespace {

std::string data_path(const char* name) { return source_dir() + "/tests/bundle/data/" + name; }

template <class T>
T need(Result<T> result) {
  REQUIRE_MESSAGE(result.ok(), result.status().message());
  return std::move(result).value();
}

std::shared_ptr<Bundle> open_bundle(const char* name) { return need(Bundle::open(data_path(name))); }

uint64_t data_bytes(const Bundle& bundle) {
  uint64_t bytes = 0;
  for (const DataSetInfo& info : bundle.data_sets()) bytes += info.extent.length;
  return bytes;
}

/// Everything is to be looked at.
DataMaps all_of(const Bundle& bundle) {
  DataMaps maps;
  for (const DataSetInfo& info : bundle.data_sets()) maps[info.path] = nullptr;
  return maps;
}

Status check(const std::shared_ptr<Bundle>& bundle, const LeafHashes& base, const DataMaps& changed,
             uint64_t* read) {
  LeafHashes leaves(bundle);
  return leaves.check(base, changed, {{}, [read](uint64_t bytes) {
                                        *read += bytes;
                                        return Status();
                                      }});
}

}  // namespace

TEST_CASE("leaves give the hashes that the exporter wrote, each byte read once") {
  for (const char* name : {"changing.h5", "changed.h5"}) {
    CAPTURE(name);
    const auto bundle = open_bundle(name);
    LeafHashes leaves(bundle);
    CHECK(leaves.unmade_bytes() == data_bytes(*bundle));
    uint64_t made = 0, read = 0;
    for (uint64_t bytes = leaves.make_next(); bytes > 0; bytes = leaves.make_next()) made += bytes;
    CHECK(made == data_bytes(*bundle));
    CHECK(leaves.unmade_bytes() == 0);
    CHECK(leaves.make_next() == 0);
    const Status s = check(bundle, leaves, all_of(*bundle), &read);
    CHECK_MESSAGE(s.ok(), s.message());
    CHECK(read == data_bytes(*bundle));
    read = 0;
    CHECK(check(bundle, leaves, {}, &read).ok());
    CHECK(read == 0);
  }
}

TEST_CASE("what a delta makes has the new version's hashes, and a changed byte of any data set is found") {
  const auto base = open_bundle("changing.h5");
  const std::shared_ptr<const Delta> delta = need(Delta::open(data_path("changing.delta")));
  PatchMaps maps;
  const std::shared_ptr<Bundle> made =
      need(Bundle::open_source(need(patched(base, delta, &maps)), "made", {}));
  LeafHashes before(base);
  while (before.make_next() > 0) {
  }
  uint64_t read = 0;
  const Status s = check(made, before, maps.data, &read);
  CHECK_MESSAGE(s.ok(), s.message());
  std::vector<std::byte> bytes(made->file_bytes());
  REQUIRE(made->bytes().read(0, bytes.data(), bytes.size()).ok());
  int looked = 0;
  for (const DataSetInfo& info : made->data_sets()) {
    if (info.extent.length == 0 || !maps.data.contains(info.path)) continue;
    CAPTURE(info.path);
    ++looked;
    for (const uint64_t at : {uint64_t{0}, info.extent.length / 2, info.extent.length - 1}) {
      std::vector<std::byte> other = bytes;
      other[info.extent.offset + at] ^= std::byte{1};
      const std::shared_ptr<Bundle> bundle = need(Bundle::open_memory(other));
      const Status wrong = check(bundle, before, all_of(*bundle), &read);
      CHECK(wrong.code() == Code::kBadModel);
      CHECK(wrong.message().find(info.path) != std::string::npos);
    }
  }
  CHECK(looked > 5);
}

}  // namespace dpi::test::leaf_hashes_test
