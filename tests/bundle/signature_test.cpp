// Ed25519 signatures of the user block: what is signed opens under its key and no other, and nothing that was
// signed may change.
#include <sodium.h>

#include "bundle/bundle_bytes.hpp"

namespace dpi::test {
namespace {

struct Signed {
  Bytes bytes;
  std::string key;  // hex
};

std::string hex(const unsigned char* p, size_t n) {
  std::string out(2 * n + 1, '\0');
  sodium_bin2hex(out.data(), out.size(), p, n);
  out.pop_back();
  return out;
}

/// Sets the signature flag, seals, and signs bytes [0, 64) and the extent list with a key made from `seed`.
Signed sign(Bytes bytes, unsigned char seed) {
  unsigned char pk[crypto_sign_PUBLICKEYBYTES];
  unsigned char sk[crypto_sign_SECRETKEYBYTES];
  const Bytes seed_bytes(crypto_sign_SEEDBYTES, seed);
  REQUIRE(sodium_init() >= 0);
  REQUIRE(crypto_sign_seed_keypair(pk, sk, seed_bytes.data()) == 0);
  put_u64(&bytes, 48, 1);
  reseal(&bytes);
  Bytes message(bytes.begin(), bytes.begin() + 64);
  message.insert(message.end(), bytes.begin() + 128,
                 bytes.begin() + 128 + static_cast<ptrdiff_t>(24 * get_u64(bytes, 32)));
  REQUIRE(crypto_sign_detached(bytes.data() + 64, nullptr, message.data(), message.size(), sk) == 0);
  return {std::move(bytes), hex(pk, sizeof pk)};
}

Code open_with(const Bytes& bytes, const std::string& key) {
  BundleOptions options;
  options.require_signature = key;
  return Bundle::open_memory(std::as_bytes(std::span(bytes.data(), bytes.size())), options).status().code();
}

TEST_CASE("signed bundles") {
  const Signed mine = sign(read_file(small_path()), 1);
  const Signed other = sign(read_file(small_path()), 2);
  CHECK(open_with(mine.bytes, mine.key) == Code::kOk);
  CHECK(open_with(mine.bytes, "") == Code::kOk);
  CHECK(open_with(mine.bytes, other.key) == Code::kBadModel);
  CHECK(open_with(read_file(small_path()), mine.key) == Code::kBadModel);
  CHECK(open_with(mine.bytes, "abcd") == Code::kInvalidArgument);
  CHECK(open_with(mine.bytes, mine.key + "00") == Code::kInvalidArgument);
  for (size_t at = 64; at < 128; at += 7) {
    Bytes changed = mine.bytes;
    changed[at] ^= 1;
    CHECK(open_with(changed, mine.key) == Code::kBadModel);
  }
}

TEST_CASE("a resealed change of metadata or of data digests breaks the signature") {
  const Signed mine = sign(read_file(small_path()), 1);
  Bytes metadata = mine.bytes;
  metadata[metadata.size() - 1] ^= 1;
  reseal(&metadata);
  CHECK(open_with(metadata, mine.key) == Code::kBadModel);
  Bytes data = mine.bytes;
  data[144] ^= 1;  // the digest of the first extent
  reseal(&data);
  CHECK(open_with(data, "") == Code::kOk);
  CHECK(open_with(data, mine.key) == Code::kBadModel);
}

}  // namespace
}  // namespace dpi::test
