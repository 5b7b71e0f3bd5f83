#include "bundle/signature.hpp"

#include <algorithm>
#include <string_view>

#include "base/text.hpp"

#ifdef DPI_WITH_SODIUM
#include "bundle/sodium_hash.hpp"
#endif

namespace dpi {
Result<std::vector<PublicKey>> parse_public_keys(const std::string& text) {
  std::vector<PublicKey> out;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    PublicKey key;
    if (!parse_hex(std::string_view(text).substr(at, comma - at), key))
      return invalid_argument(
          "require_signature: expected Ed25519 public keys of 64 hex digits, separated by commas");
    out.push_back(key);
    at = comma + 1;
  }
  return out;
}

#ifdef DPI_WITH_SODIUM
namespace {

const unsigned char* raw(const void* p) { return static_cast<const unsigned char*>(p); }
unsigned char* raw(void* p) { return static_cast<unsigned char*>(p); }

KeyId id_of(const PublicKey& key) {
  KeyId id;
  Blake2b hash("DPI 2 key id", id.size());
  hash.add(key);
  const ContentHash found = hash.finish();
  std::copy_n(found.begin(), id.size(), id.begin());
  return id;
}

using Message = std::array<std::byte, 20 + sizeof(KeyId) + sizeof(ContentHash)>;

/// The hash of the user block without the parts that change when signatures come and go.
ContentHash hash_of(const UserBlock& block) {
  Blake2b hash("DPI 2 user block");
  hash.add(block.signed_head());
  hash.add(block.extent_list());
  return hash.finish();
}

/// The message that is signed: a text that no other protocol signs, the key's id, and the user block's hash.
Message message_of(const UserBlock& block, const KeyId& id) {
  const ContentHash what = hash_of(block);
  constexpr std::string_view kText = "DPI bundle signature";
  Message out;
  std::memcpy(out.data(), kText.data(), kText.size());
  std::memcpy(out.data() + kText.size(), id.data(), id.size());
  std::memcpy(out.data() + kText.size() + id.size(), what.data(), what.size());
  return out;
}

std::string ids_text(const std::vector<KeyId>& ids) {
  std::string out;
  for (const KeyId& id : ids) out += (out.empty() ? "" : ", ") + hex_bytes(id);
  return out;
}

}  // namespace

Result<ContentHash> version_of(const UserBlock& block) {
  DPI_RETURN_IF_ERROR(start_sodium());
  return hash_of(block);
}

Result<SigningKey> signing_key_of(const SigningSeed& seed) {
  DPI_RETURN_IF_ERROR(start_sodium());
  SigningKey key;
  key.seed = seed;
  unsigned char secret[crypto_sign_SECRETKEYBYTES];
  if (crypto_sign_seed_keypair(raw(key.public_key.data()), secret, raw(seed.data())) != 0)
    return internal_error("libsodium makes no key");
  sodium_memzero(secret, sizeof secret);
  return key;
}

Result<SigningKey> make_signing_key() {
  DPI_RETURN_IF_ERROR(start_sodium());
  SigningSeed seed;
  randombytes_buf(seed.data(), seed.size());
  return signing_key_of(seed);
}

Result<KeyId> key_id_of(const PublicKey& key) {
  DPI_RETURN_IF_ERROR(start_sodium());
  return id_of(key);
}

Result<Signature> sign_block(const UserBlock& block, const SigningKey& key) {
  DPI_RETURN_IF_ERROR(start_sodium());
  Signature out;
  out.key = id_of(key.public_key);
  const Message message = message_of(block, out.key);
  unsigned char public_key[crypto_sign_PUBLICKEYBYTES], secret[crypto_sign_SECRETKEYBYTES];
  crypto_sign_seed_keypair(public_key, secret, raw(key.seed.data()));
  const int bad =
      crypto_sign_detached(raw(out.bytes.data()), nullptr, raw(message.data()), message.size(), secret);
  sodium_memzero(secret, sizeof secret);
  if (bad != 0) return internal_error("libsodium does not sign");
  return out;
}

Status check_signature(const UserBlock& block, const std::string& public_keys) {
  DPI_RETURN_IF_ERROR(start_sodium());
  DPI_ASSIGN_OR_RETURN(const std::vector<PublicKey> keys, parse_public_keys(public_keys));
  if (block.signatures.empty()) return bad_model("is not signed, and a signature is required");
  std::vector<KeyId> wanted, found;
  for (const Signature& s : block.signatures) found.push_back(s.key);
  bool known = false;
  for (const PublicKey& key : keys) {
    wanted.push_back(id_of(key));
    const Message message = message_of(block, wanted.back());
    for (const Signature& s : block.signatures) {
      if (s.key != wanted.back()) continue;
      known = true;
      if (crypto_sign_verify_detached(raw(s.bytes.data()), raw(message.data()), message.size(),
                                      raw(key.data())) == 0)
        return {};
    }
  }
  if (known) return bad_model("its signature does not verify under the required public key");
  return bad_model("is signed by key " + ids_text(found) + ", and a signature by " + ids_text(wanted) +
                   " is required");
}
#else
namespace {

Status no_sodium() { return unsupported("require_signature: this build has no libsodium"); }

}  // namespace

Result<ContentHash> version_of(const UserBlock&) {
  return unsupported("versions of bundles: this build has no libsodium");
}
Result<SigningKey> signing_key_of(const SigningSeed&) { return no_sodium(); }
Result<SigningKey> make_signing_key() { return no_sodium(); }
Result<KeyId> key_id_of(const PublicKey&) { return no_sodium(); }
Result<Signature> sign_block(const UserBlock&, const SigningKey&) { return no_sodium(); }
Status check_signature(const UserBlock&, const std::string&) { return no_sodium(); }
#endif

}  // namespace dpi
