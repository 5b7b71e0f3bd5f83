// Damaged and hostile bundles: nothing but a clean failure, whatever byte changes. Damage that the digests
// see is never parsed; with digests written anew (an author can do that) it is, and must still end in a
// status.
#include <cstdlib>
#include <random>

#include "bundle/bundle_bytes.hpp"

namespace dpi::test::damage_test {
namespace {

/// A number from the environment, for longer runs by hand: DPI_FUZZ_ROUNDS=200000 DPI_FUZZ_SEED=7
/// bundle_damage_test -tc='*random*'
int from_environment(const char* name, int fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::atoi(text);
}

TEST_CASE("every bit of the user block matters") {
  const Bytes sound = read_file(small_path());
  REQUIRE(open_bytes(sound).ok());
  const size_t block = get_u64(sound, 16);
  Bytes bytes = sound;
  size_t accepted = 0;
  for (size_t at = 0; at < block; ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      bytes[at] ^= static_cast<unsigned char>(1 << bit);
      const auto bundle = open_bytes(bytes);
      const bool data_digest = at >= kExtentList && at < kExtentList + kExtentEntry * get_u64(sound, 32);
      accepted += bundle.ok() ? 1 : 0;
      if (!bundle.ok()) {
        const Code code = bundle.status().code();
        const bool version = at >= 8 && at < 12;
        CHECK_MESSAGE(code == (version ? Code::kUnsupported : Code::kBadModel), at, " ",
                      bundle.status().message());
      }
      CHECK_MESSAGE(!bundle.ok(), "byte ", at, " bit ", bit, data_digest ? " of an extent" : "");
      bytes[at] = sound[at];
    }
  }
  CHECK(accepted == 0);
}

TEST_CASE("every byte of the metadata matters") {
  const Bytes sound = read_file(small_path());
  const auto extents = extents_of(sound);
  Bytes bytes = sound;
  for (size_t at = 0; at < sound.size(); ++at) {
    if (!is_metadata(sound, extents, at)) continue;
    bytes[at] ^= 0x10;
    CHECK(open_bytes(bytes).status().code() == Code::kBadModel);
    bytes[at] = sound[at];
  }
}

TEST_CASE("damaged data is found when it is read, and named") {
  const Bytes sound = read_file(small_path());
  for (const Extent& e : extents_of(sound)) {
    Bytes bytes = sound;
    bytes[e.offset + e.length / 2] ^= 1;
    auto bundle = open_bytes(bytes);
    REQUIRE(bundle.ok());
    const Status s = (*bundle)->verify_all({});
    CHECK(s.code() == Code::kBadModel);
    const auto& sets = (*bundle)->data_sets();
    const auto owner = std::find_if(sets.begin(), sets.end(), [&](const DataSetInfo& d) {
      return d.extent.offset == e.offset && d.extent.length > 0;
    });
    REQUIRE(owner != sets.end());
    CHECK_MESSAGE(s.message().find(owner->path) != std::string::npos, s.message());
    for (size_t t = 0; t < (*bundle)->manifest().tables.size(); ++t) {
      if ((*bundle)->manifest().tables[t].data != owner->path) continue;
      CHECK((*bundle)
                ->read_table(t, [](int64_t, int64_t, std::span<const std::byte>) { return Status(); })
                .code() == Code::kBadModel);
    }
  }
}

TEST_CASE("truncated or longer") {
  const Bytes sound = read_file(small_path());
  for (size_t n = 0; n < sound.size(); n += 64) {
    CHECK(open_bytes(Bytes(sound.begin(), sound.begin() + static_cast<ptrdiff_t>(n))).status().code() ==
          Code::kBadModel);
  }
  Bytes longer = sound;
  longer.push_back(0);
  CHECK(open_bytes(longer).status().code() == Code::kBadModel);
}

TEST_CASE("hostile extent lists") {
  const Bytes sound = read_file(small_path());
  const uint64_t kOdd[] = {0,
                           1,
                           127,
                           512,
                           sound.size() - 1,
                           sound.size(),
                           sound.size() + 1,
                           UINT64_MAX,
                           UINT64_MAX - 7,
                           uint64_t{1} << 63};
  for (size_t field : {size_t{16}, size_t{24}, size_t{32}, size_t{48}, size_t{56}, kExtentList,
                       kExtentList + 8, kExtentList + kExtentEntry, kExtentList + kExtentEntry + 8}) {
    for (uint64_t v : kOdd) {
      Bytes bytes = sound;
      if (get_u64(bytes, field) == v) continue;
      put_u64(&bytes, field, v);
      CHECK_MESSAGE(open_bytes(bytes).status().code() == Code::kBadModel, "field ", field, " = ", v);
    }
  }
  Bytes swapped = sound;  // two extents that overlap by one byte, sealed
  put_u64(&swapped, kExtentList + 8,
          get_u64(swapped, kExtentList + kExtentEntry) - get_u64(swapped, kExtentList) + 1);
  CHECK(open_bytes(swapped).status().code() == Code::kBadModel);
  Bytes shorter = sound;  // an extent that is not the whole data set, sealed
  put_u64(&shorter, kExtentList + 8, get_u64(shorter, kExtentList + 8) - 1);
  reseal(&shorter);
  const auto bundle = open_bytes(shorter);
  CHECK(bundle.status().code() == Code::kBadModel);
  CHECK_MESSAGE(bundle.status().message().find("is not an extent") != std::string::npos,
                bundle.status().message());
}

/// Changes 1 to 8 metadata bytes, in a run or apart.
void mutate(Bytes* bytes, const std::vector<size_t>& places, std::mt19937_64* rng) {
  const size_t n = 1 + (*rng)() % 8;
  const bool run = (*rng)() % 2 == 0;
  size_t place = (*rng)() % places.size();
  for (size_t k = 0; k < n; ++k) {
    place = run ? (place + 1) % places.size() : (*rng)() % places.size();
    constexpr unsigned char kOdd[] = {0, 1, 0x7f, 0x80, 0xff};
    (*bytes)[places[place]] = (*rng)() % 2 == 0 ? kOdd[(*rng)() % 5] : static_cast<unsigned char>((*rng)());
  }
}

TEST_CASE("metadata changed at random under sound digests never crashes") {
  const Bytes sound = read_file(small_path());
  const auto extents = extents_of(sound);
  std::vector<size_t> places;
  for (size_t at = 0; at < sound.size(); ++at) {
    if (is_metadata(sound, extents, at)) places.push_back(at);
  }
  std::mt19937_64 rng(static_cast<uint64_t>(from_environment("DPI_FUZZ_SEED", 20261121)));
  const int rounds = from_environment("DPI_FUZZ_ROUNDS", 3000);
  int opened = 0;
  for (int round = 0; round < rounds; ++round) {
    Bytes bytes = sound;
    mutate(&bytes, places, &rng);
    reseal(&bytes);
    auto bundle = open_bytes(bytes);
    if (bundle.ok()) {
      ++opened;
      read_all(**bundle);
    } else {
      CHECK_FALSE(bundle.status().message().empty());
    }
  }
  CHECK(opened < rounds);
}

}  // namespace
}  // namespace dpi::test::damage_test
