// Signatures: what is signed opens under its key and no other, and no byte of it may change, whatever else a
// forger writes anew. Digests (XXH3) are always written anew here, or steered: they are no obstacle.
#define XXH_INLINE_ALL  // XXH3's own secret, which a forger knows
#include <sodium.h>
#include <unistd.h>
#include <xxhash.h>

#include <atomic>
#include <filesystem>
#include <random>
#include <thread>

#include "base/text.hpp"
#include "bundle/bundle_bytes.hpp"
#include "bundle/signature.hpp"

namespace dpi::test::signature_test {
namespace {

namespace fs = std::filesystem;

SigningKey key_of(unsigned char n) {
  SigningSeed seed;
  seed.fill(static_cast<std::byte>(n));
  auto key = signing_key_of(seed);
  REQUIRE(key.ok());
  return *key;
}

std::string public_text(unsigned char n) { return hex_bytes(key_of(n).public_key); }

/// The bytes after `change` was done to them as a file.
template <class Change>
Bytes through_file(const Bytes& bytes, const Change& change) {
  const std::string path =
      (fs::temp_directory_path() / ("dpi_sign_" + std::to_string(::getpid()) + ".h5")).string();
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  change(path);
  Bytes out = read_file(path);
  fs::remove(path);
  return out;
}

Bytes sign(const Bytes& bytes, unsigned char key) {
  return through_file(bytes, [&](const std::string& path) {
    const Status s = sign_file(path, key_of(key), {}, {});
    REQUIRE_MESSAGE(s.ok(), s.message());
  });
}

Bytes small() { return read_file(small_path()); }

/// Opens and reads everything with a signature by one of `keys` required.
Status load(const Bytes& bytes, const std::string& keys) {
  BundleOptions options;
  options.require_signature = keys;
  DPI_ASSIGN_OR_RETURN(const auto bundle,
                       Bundle::open_memory(std::as_bytes(std::span(bytes.data(), bytes.size())), options));
  return bundle->verify_all({});
}

/// The same without: damage is found, forgery is not.
Status load_unsigned(const Bytes& bytes) {
  DPI_ASSIGN_OR_RETURN(const auto bundle, open_bytes(bytes));
  return bundle->verify_all({});
}

void refuse(const Bytes& bytes, const std::string& keys, const std::string& text) {
  const Status s = load(bytes, keys);
  CHECK(s.code() == Code::kBadModel);
  CHECK_MESSAGE(s.message().find(text) != std::string::npos, s.message(), " lacks ", text);
}

ContentHash tree_hash(TreeHash::Domain domain, const Bytes& bytes) {
  auto hash = TreeHash::create(domain);
  REQUIRE(hash.ok());
  hash->add(std::as_bytes(std::span(bytes)));
  return hash->finish();
}

/// All that a forger without a key can write anew: hashes of data and of metadata, and digests.
void rewrite_all(Bytes* b) {
  Bytes rest;
  size_t at = get_u64(*b, 16), entry = kExtentList;
  const auto part = [&](size_t from, size_t to) {
    return Bytes(b->begin() + static_cast<ptrdiff_t>(from), b->begin() + static_cast<ptrdiff_t>(to));
  };
  for (const Extent& e : extents_of(*b)) {
    const Bytes data = part(e.offset, e.offset + e.length), between = part(at, e.offset);
    put_u64(b, entry + 16, XXH3_64bits(data.data(), data.size()));
    const ContentHash hash = tree_hash(TreeHash::kData, data);
    std::memcpy(b->data() + entry + 24, hash.data(), hash.size());
    rest.insert(rest.end(), between.begin(), between.end());
    at = e.offset + e.length;
    entry += kExtentEntry;
  }
  const Bytes last = part(at, b->size());
  rest.insert(rest.end(), last.begin(), last.end());
  const ContentHash hash = tree_hash(TreeHash::kMetadata, rest);
  std::memcpy(b->data() + 64, hash.data(), hash.size());
  reseal(b);
}

void copy(const Bytes& from, Bytes* to, size_t at, size_t n) {
  std::copy_n(from.begin() + static_cast<ptrdiff_t>(at), n, to->begin() + static_cast<ptrdiff_t>(at));
}

constexpr size_t kSignature = 128, kSignatureBytes = 80;

TEST_CASE("signed bundles open under their key") {
  const Bytes mine = sign(small(), 1);
  CHECK(load(mine, public_text(1)).ok());
  CHECK(load_unsigned(mine).ok());
  CHECK(load(mine, public_text(2) + "," + public_text(1)).ok());
  refuse(mine, public_text(2), "a signature by");
  refuse(small(), public_text(1), "is not signed");
  for (const std::string& bad :
       {std::string("abcd"), public_text(1) + "00", public_text(1) + ",", std::string(64, 'g')})
    CHECK(load(mine, bad).code() == Code::kInvalidArgument);
  CHECK(sign(mine, 1) == mine);  // Ed25519 signs the same in the same way
}

TEST_CASE("signing changes the user block's room for signatures, and nothing else") {
  const Bytes before = small(), after = sign(before, 1);
  REQUIRE(after.size() == before.size());
  for (size_t i = 0; i < before.size(); ++i) {
    const bool may = (i >= 40 && i < 48) || (i >= 56 && i < 64) || (i >= 128 && i < 208);
    if (!may && before[i] != after[i]) FAIL_CHECK("byte ", i);
  }
}

TEST_CASE("keys change while services run") {
  const Bytes old_key = sign(small(), 1);
  const Bytes both = sign(old_key, 2);
  for (unsigned char n : {1, 2}) CHECK(load(both, public_text(n)).ok());
  const auto id = key_id_of(key_of(1).public_key);
  REQUIRE(id.ok());
  const Bytes new_key = through_file(both, [&](const std::string& path) {
    CHECK(remove_signature(path, *id).ok());
    CHECK(remove_signature(path, *id).code() == Code::kNotFound);
  });
  CHECK(load(new_key, public_text(2)).ok());
  refuse(new_key, public_text(1), "a signature by");
  CHECK(new_key == sign(small(), 2));
  Bytes full = small();
  for (unsigned char n = 1; n <= 8; ++n) full = sign(full, n);
  for (unsigned char n = 1; n <= 8; ++n) CHECK(load(full, public_text(n)).ok());
  CHECK(sign(full, 3).size() == full.size());
  (void)through_file(full, [](const std::string& path) {
    CHECK(sign_file(path, key_of(9), {}, {}).code() == Code::kInvalidArgument);
  });
}

TEST_CASE("all who sign a file at once have signed it") {
  for (int round = 0; round < 6; ++round) {
    const Bytes all = through_file(small(), [](const std::string& path) {
      std::vector<std::thread> signers;
      std::atomic<int> failed{0};
      for (unsigned char n = 1; n <= 8; ++n)
        signers.emplace_back([&, key = key_of(n)] { failed += sign_file(path, key, {}, {}).ok() ? 0 : 1; });
      for (std::thread& t : signers) t.join();
      CHECK(failed == 0);
    });
    for (unsigned char n = 1; n <= 8; ++n) CHECK(load(all, public_text(n)).ok());
  }
}

TEST_CASE("a file that was replaced while it was signed is not said to be signed") {
  (void)through_file(small(), [](const std::string& path) {
    const std::string other = path + ".new";
    fs::copy_file(path, other);
    const Status s = sign_file(path, key_of(1), {}, [&](uint64_t done, uint64_t total) {
      if (done == total) fs::rename(other, path);
    });
    CHECK(s.code() == Code::kIo);
    CHECK(s.message().find("was replaced") != std::string::npos);
  });
}

TEST_CASE("what was checked is signed, not what stands in the file by then") {
  const Bytes before = small(), signed_before = sign(before, 1);
  const Extent e = extents_of(before).front();
  const Bytes after = through_file(before, [&](const std::string& path) {
    const Status s = sign_file(path, key_of(1), {}, [&](uint64_t done, uint64_t total) {
      if (done != total) return;
      Bytes forged = before;  // other data, and hashes that fit it
      forged[e.offset] ^= 1;
      rewrite_all(&forged);
      std::fstream out(path, std::ios::binary | std::ios::in | std::ios::out);
      out.write(reinterpret_cast<const char*>(forged.data()), static_cast<std::streamsize>(forged.size()));
    });
    CHECK(s.ok());  // of the bytes that were there
  });
  CHECK_FALSE(load(after, public_text(1)).ok());
}

TEST_CASE("nothing is signed whose hashes are wrong") {
  Bytes bytes = small();
  bytes[kExtentList + 24] ^= 1;
  reseal(&bytes);
  CHECK(load_unsigned(bytes).ok());
  (void)through_file(bytes, [](const std::string& path) {
    CHECK(sign_file(path, key_of(1), {}, {}).code() == Code::kBadModel);
  });
}

TEST_CASE("a changed manifest") {
  const Bytes mine = sign(small(), 1);
  const std::string text = "made up", other = "made uq";
  const auto at = std::search(mine.begin(), mine.end(), text.begin(), text.end());
  REQUIRE(at != mine.end());
  Bytes forged = mine;
  std::copy(other.begin(), other.end(), forged.begin() + (at - mine.begin()));
  reseal(&forged);
  CHECK(load_unsigned(forged).ok());
  refuse(forged, public_text(1), "metadata does not match its hash");
  rewrite_all(&forged);
  CHECK(load_unsigned(forged).ok());
  refuse(forged, public_text(1), "does not verify");
}

/// 16 other bytes with the same XXH3: its sum for 9 to 16 bytes is len + bswap(a) + b + fold(a b) of two
/// words that the bytes give freely, and b = 0 leaves bswap(a).
Bytes steered(const Bytes& data) {
  const auto word = [](const void* p) {
    uint64_t v = 0;
    std::memcpy(&v, p, sizeof v);
    return v;
  };
  const uint64_t flip1 = word(XXH3_kSecret + 24) ^ word(XXH3_kSecret + 32);
  const uint64_t flip2 = word(XXH3_kSecret + 40) ^ word(XXH3_kSecret + 48);
  const uint64_t a = word(data.data()) ^ flip1, b = word(data.data() + 8) ^ flip2;
  const auto product = static_cast<unsigned __int128>(a) * b;
  const uint64_t sum =
      __builtin_bswap64(a) + b + (static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64));
  Bytes out(16);
  put_u64(&out, 0, __builtin_bswap64(sum) ^ flip1);
  put_u64(&out, 8, flip2);
  return out;
}

TEST_CASE("data steered to the same XXH3") {
  const Bytes mine = sign(small(), 1);
  int forged_extents = 0;
  for (const Extent& e : extents_of(mine)) {
    if (e.length != 16) continue;
    const auto begin = mine.begin() + static_cast<ptrdiff_t>(e.offset);
    const Bytes data(begin, begin + 16), other = steered(data);
    REQUIRE(other != data);
    REQUIRE(XXH3_64bits(other.data(), 16) == XXH3_64bits(data.data(), 16));
    Bytes forged = mine;
    std::copy(other.begin(), other.end(), forged.begin() + static_cast<ptrdiff_t>(e.offset));
    CHECK(load_unsigned(forged).ok());
    refuse(forged, public_text(1), "its data does not match its hash");
    ++forged_extents;
  }
  CHECK(forged_extents > 0);
}

TEST_CASE("two data sets that change places") {
  const Bytes mine = sign(small(), 1);
  const auto extents = extents_of(mine);
  int swapped = 0;
  for (size_t i = 0; i < extents.size(); ++i) {
    for (size_t j = i + 1; j < extents.size(); ++j) {
      const Extent &a = extents[i], &b = extents[j];
      if (a.length != b.length || a.hash == b.hash) continue;
      Bytes forged = mine;
      std::swap_ranges(forged.begin() + static_cast<ptrdiff_t>(a.offset),
                       forged.begin() + static_cast<ptrdiff_t>(a.offset + a.length),
                       forged.begin() + static_cast<ptrdiff_t>(b.offset));
      const Bytes data_only = forged;
      rewrite_all(&forged);
      CHECK(load_unsigned(forged).ok());
      refuse(forged, public_text(1), "does not verify");
      CHECK_FALSE(load(data_only, public_text(1)).ok());
      ++swapped;
    }
  }
  CHECK(swapped > 0);
}

TEST_CASE("another bundle's signature") {
  const Bytes mine = sign(small(), 1);
  Bytes other = read_file(source_dir() + "/weights/demo/adult_widedeep.h5");
  copy(mine, &other, kSignature, kSignatureBytes);
  put_u64(&other, 56, 1);
  reseal(&other);
  CHECK(load_unsigned(other).ok());
  refuse(other, public_text(1), "does not verify");
  CHECK(load(sign(other, 1), public_text(1)).ok());
}

TEST_CASE("a key's id on another key's signature") {
  const Bytes one = sign(small(), 1), two = sign(small(), 2);
  Bytes forged = one;
  copy(two, &forged, kSignature, sizeof(KeyId));
  reseal(&forged);
  refuse(forged, public_text(2), "does not verify");
  refuse(forged, public_text(1), "is signed by key");
  refuse(forged, public_text(1) + "," + public_text(2), "does not verify");
  // A false signature under the same id beside the true one takes nothing from it.
  Bytes both = sign(one, 2);
  copy(forged, &both, kSignature, kSignatureBytes);
  reseal(&both);
  CHECK(load(both, public_text(2)).ok());
  refuse(both, public_text(1), "a signature by");
}

TEST_CASE("cut off") {
  const Bytes mine = sign(small(), 1);
  for (size_t n = 0; n < mine.size(); n += 37) {
    Bytes cut(mine.begin(), mine.begin() + static_cast<ptrdiff_t>(n));
    CHECK_FALSE(load(cut, public_text(1)).ok());
    if (n < get_u64(mine, 16)) continue;
    put_u64(&cut, 24, n);
    const auto extents = extents_of(mine);
    if (extents.back().offset + extents.back().length <= n) reseal(&cut);
    CHECK_FALSE(load(cut, public_text(1)).ok());
  }
}

TEST_CASE("every byte of the file, its digests written anew") {
  const Bytes mine = sign(small(), 1);
  const auto extents = extents_of(mine);
  Bytes bytes = mine;
  std::mt19937 rng(7);
  for (size_t at = 0; at < mine.size(); ++at) {
    bytes[at] ^= static_cast<unsigned char>(1u << rng() % 8);
    if (load(bytes, public_text(1)).ok()) FAIL_CHECK("byte ", at, " as it is");
    const bool data = std::any_of(extents.begin(), extents.end(), [&](const Extent& e) {
      return at >= e.offset && at < e.offset + e.length;
    });
    const bool listed = at >= kExtentList && at < kExtentList + kExtentEntry * extents.size();
    const bool place = (at >= 16 && at < 40) || (listed && (at - kExtentList) % kExtentEntry < 16);
    if (!place) {  // what reseal relies on is sound
      if (data) {
        rewrite_all(&bytes);
      } else {
        reseal(&bytes);
      }
      const bool digest = at >= 40 && at < 48;  // written anew, so as it was
      if (load(bytes, public_text(1)).ok() != digest) FAIL_CHECK("byte ", at, " with new digests");
    }
    if (data) {
      bytes = mine;
    } else {
      bytes[at] = mine[at];
      copy(mine, &bytes, 40, 8);
    }
  }
}

TEST_CASE("the hash does not depend on blocks or on who hashes leaves, and knows their order") {
  std::mt19937_64 rng(3);
  Bytes data((size_t{5} << 20) + 12345);
  for (unsigned char& c : data) c = static_cast<unsigned char>(rng());
  const ContentHash alone = tree_hash(TreeHash::kData, data);
  for (int round = 0; round < 12; ++round) {
    std::vector<std::span<const std::byte>> blocks;
    for (size_t at = 0; at < data.size(); at += blocks.back().size()) {
      const size_t n = std::min(data.size() - at, static_cast<size_t>(1 + rng() % (size_t{3} << 20)));
      blocks.push_back(std::as_bytes(std::span(data).subspan(at, n)));
    }
    std::vector<TreeHash::Leaves> leaves(blocks.size());
    for (size_t i = blocks.size(); i-- > 0;)  // any order will do
      leaves[i].make(static_cast<uint64_t>(blocks[i].data() - blocks[0].data()), blocks[i]);
    auto hash = TreeHash::create(TreeHash::kData), plain = TreeHash::create(TreeHash::kData);
    REQUIRE((hash.ok() && plain.ok()));
    for (size_t i = 0; i < blocks.size(); ++i) {
      hash->join(leaves[i], blocks[i]);
      plain->add(blocks[i]);
    }
    CHECK(hash->finish() == alone);
    CHECK(plain->finish() == alone);
  }
  CHECK(tree_hash(TreeHash::kMetadata, data) != alone);
  Bytes reordered = data;
  std::swap_ranges(reordered.begin(), reordered.begin() + (1 << 20), reordered.begin() + (2 << 20));
  CHECK(tree_hash(TreeHash::kData, reordered) != alone);
  Bytes longer = data;
  longer.push_back(0);
  CHECK(tree_hash(TreeHash::kData, longer) != alone);
}

}  // namespace
}  // namespace dpi::test::signature_test
