// The reader of HDF5's structures against several hundred thousand changed bundles, digests written anew each
// time: each is refused with a text or read, nothing is read out of bounds (the asan build sees that), and
// the bytes looked at stay below twice the metadata.
//
// DPI_FUZZ_ROUNDS=10000000 DPI_FUZZ_SEED=7 bundle_hdf5_mutation_test -tc='*random*' runs longer.
#include <cstdlib>
#include <random>

#include "bundle/hdf5_part.hpp"
#include "support/odd_words.hpp"

namespace dpi::test::hdf5_mutation_test {
namespace {

int from_environment(const char* name, int fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::atoi(text);
}

/// A sound bundle and the places in it that hold structures: metadata without the manifest.
struct Subject {
  Bytes sound = read_file(small_path());
  Hdf5Part part;
  std::vector<size_t> places;

  Subject() {
    REQUIRE(read_hdf5_part(sound, &part).ok());
    const auto at = std::search(sound.begin(), sound.end(), part.manifest.begin(), part.manifest.end());
    const auto manifest = static_cast<size_t>(at - sound.begin());
    const auto extents = extents_of(sound);
    for (size_t i = 0; i < sound.size(); ++i) {
      const bool in_manifest = i >= manifest && i < manifest + part.manifest.size();
      if (!in_manifest && is_metadata(sound, extents, i)) places.push_back(i);
    }
  }
};

struct Tally {
  int refused = 0, same = 0, other = 0;
};

bool same_sets(const std::vector<DataSetInfo>& a, const std::vector<DataSetInfo>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const DataSetInfo& x, const DataSetInfo& y) {
    return x.path == y.path && x.type == y.type && x.shape == y.shape && x.extent.offset == y.extent.offset &&
           x.extent.length == y.extent.length && x.extent.digest == y.extent.digest;
  });
}

/// What is read lies where the user block says; only names, types of one size and shapes of one size may
/// differ.
void check_read(const Subject& subject, const Hdf5Part& part) {
  CHECK(part.sets.size() == subject.part.sets.size());
  CHECK(!part.manifest.empty());
  for (const DataSetInfo& set : part.sets) {
    int64_t bytes = type_bytes(set.type);
    for (const int64_t d : set.shape) bytes *= d;
    CHECK(set.extent.length == static_cast<uint64_t>(bytes));
    CHECK(set.extent.offset + set.extent.length <= subject.sound.size());
  }
}

void read_changed(const Subject& subject, Bytes* bytes, Tally* tally) {
  reseal(bytes);
  Hdf5Part part;
  const Status s = read_hdf5_part(*bytes, &part);
  if (part.bytes_read > 2 * subject.part.block.metadata_bytes())
    FAIL_CHECK("read ", part.bytes_read, " bytes");
  if (!s.ok()) {
    ++tally->refused;
    if (s.code() != Code::kBadModel || s.message().empty()) FAIL_CHECK(s.message());
    return;
  }
  const bool same = same_sets(part.sets, subject.part.sets) && part.manifest == subject.part.manifest;
  ++(same ? tally->same : tally->other);
  if (!same) check_read(subject, part);
}

// A sanitizer makes each reading about ten times slower: every fourth place is changed then.
#ifdef DPI_SANITIZED
constexpr size_t kThinned = 4;
constexpr int kRounds = 30000;
#else
constexpr size_t kThinned = 1;
constexpr int kRounds = 150000;
#endif

TEST_CASE("every byte of the structures, changed in every bit and to odd values") {
  const Subject subject;
  Tally tally;
  Bytes bytes = subject.sound;
  for (size_t i = 0; i < subject.places.size(); i += kThinned) {
    const size_t at = subject.places[i];
    const unsigned char old = bytes[at];
    for (int k = 0; k < 11; ++k) {
      constexpr unsigned char kOdd[] = {0, 0x7f, 0xff};
      bytes[at] = k < 8 ? static_cast<unsigned char>(old ^ (1u << k)) : kOdd[k - 8];
      if (bytes[at] != old) read_changed(subject, &bytes, &tally);
    }
    bytes[at] = old;
  }
  MESSAGE(tally.refused, " refused, ", tally.same, " the same, ", tally.other, " read otherwise");
  CHECK(tally.refused > 5000);
}

TEST_CASE("every word of the structures, set to odd values and to addresses of the file") {
  const Subject subject;
  Tally tally;
  Bytes bytes = subject.sound;
  const uint64_t base = subject.part.block.bytes;
  std::mt19937_64 rng(1);
  for (const size_t at : subject.places) {
    if (at % (4 * kThinned) != 0 || at + 8 > bytes.size()) continue;
    const Bytes old(bytes.begin() + static_cast<ptrdiff_t>(at),
                    bytes.begin() + static_cast<ptrdiff_t>(at + 8));
    std::vector<uint64_t> words(std::begin(kOddWords), std::end(kOddWords));
    for (const uint64_t v : {at - base, bytes.size() - base, bytes.size() - base - 1, uint64_t{96}})
      words.push_back(v);
    for (int k = 0; k < 8; ++k) words.push_back(subject.places[rng() % subject.places.size()] / 8 * 8 - base);
    for (const uint64_t v : words) {
      put_u64(&bytes, at, v);
      read_changed(subject, &bytes, &tally);
    }
    std::copy(old.begin(), old.end(), bytes.begin() + static_cast<ptrdiff_t>(at));
  }
  MESSAGE(tally.refused, " refused, ", tally.same, " the same, ", tally.other, " read otherwise");
  CHECK(tally.refused > 5000);
}

TEST_CASE("two places at random") {
  const Subject subject;
  Tally tally;
  std::mt19937_64 rng(static_cast<uint64_t>(from_environment("DPI_FUZZ_SEED", 20261122)));
  const int rounds = from_environment("DPI_FUZZ_ROUNDS", kRounds);
  Bytes bytes = subject.sound;
  for (int round = 0; round < rounds; ++round) {
    size_t places[2];
    for (size_t& at : places) {
      at = subject.places[rng() % subject.places.size()];
      if (rng() % 2 == 0 && at + 8 <= bytes.size() && at % 8 == 0) {
        put_u64(&bytes, at, kOddWords[rng() % std::size(kOddWords)]);
      } else {
        bytes[at] = static_cast<unsigned char>(rng());
      }
    }
    read_changed(subject, &bytes, &tally);
    for (const size_t at : places)
      std::copy_n(subject.sound.begin() + static_cast<ptrdiff_t>(at), std::min<size_t>(8, bytes.size() - at),
                  bytes.begin() + static_cast<ptrdiff_t>(at));
  }
  MESSAGE(tally.refused, " refused, ", tally.same, " the same, ", tally.other, " read otherwise");
  CHECK(tally.refused + tally.same + tally.other == rounds);
}

TEST_CASE("cut at every byte, the user block saying so") {
  const Subject subject;
  const uint64_t block = subject.part.block.bytes;
  for (size_t n = block; n < subject.sound.size(); ++n) {
    Bytes bytes(subject.sound.begin(), subject.sound.begin() + static_cast<ptrdiff_t>(n));
    put_u64(&bytes, 24, n);
    uint64_t whole = 0;  // extents that are still there
    for (const Extent& e : extents_of(subject.sound)) whole += e.offset + e.length <= n ? 1 : 0;
    put_u64(&bytes, 32, whole);
    std::fill(bytes.begin() + static_cast<ptrdiff_t>(kExtentList + kExtentEntry * whole),
              bytes.begin() + static_cast<ptrdiff_t>(block), 0);
    reseal(&bytes);
    Hdf5Part part;
    const Status s = read_hdf5_part(bytes, &part);
    if (s.code() != Code::kBadModel) FAIL_CHECK(n, ": ", s.message());
  }
}

TEST_CASE("structures that all point to one place end") {
  // Every address-sized word of the structures that holds an address of the file is turned to one structure.
  const Subject subject;
  const uint64_t base = subject.part.block.bytes;
  for (const size_t target : subject.places) {
    if (target % 8 != 0) continue;
    Bytes bytes = subject.sound;
    for (const size_t at : subject.places) {
      if (at % 8 != 0 || at < base + 96 || at + 8 > bytes.size()) continue;
      const uint64_t v = get_u64(bytes, at);
      if (v >= 96 && v < bytes.size() - base && v % 8 == 0) put_u64(&bytes, at, target - base);
    }
    reseal(&bytes);
    Hdf5Part part;
    CHECK_FALSE(read_hdf5_part(bytes, &part).ok());
    CHECK(part.bytes_read <= 2 * part.block.metadata_bytes());
  }
}

}  // namespace
}  // namespace dpi::test::hdf5_mutation_test
