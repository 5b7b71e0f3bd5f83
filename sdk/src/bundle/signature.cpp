#include "bundle/user_block.hpp"

#ifdef DPI_WITH_SODIUM
#include <sodium.h>
#endif

namespace dpi {

#ifdef DPI_WITH_SODIUM
Status check_signature(const UserBlock& block, const std::string& public_key_hex) {
  unsigned char key[crypto_sign_PUBLICKEYBYTES];
  size_t key_bytes = 0;
  const char* end = nullptr;
  if (sodium_init() < 0) return internal_error("libsodium cannot be initialised");
  const int bad = sodium_hex2bin(key, sizeof key, public_key_hex.data(), public_key_hex.size(), nullptr,
                                 &key_bytes, &end);
  if (bad != 0 || key_bytes != sizeof key || end != public_key_hex.data() + public_key_hex.size()) {
    return invalid_argument("require_signature: expected an Ed25519 public key of 64 hex digits");
  }
  if (!block.is_signed) return bad_model("is not signed, and a signature is required");
  std::vector<std::byte> message(block.raw.begin(), block.raw.begin() + 64);
  message.insert(message.end(), block.raw.begin() + 128, block.raw.end());
  const auto* bytes = reinterpret_cast<const unsigned char*>(message.data());
  const auto* signature = reinterpret_cast<const unsigned char*>(block.raw.data() + 64);
  if (crypto_sign_verify_detached(signature, bytes, message.size(), key) != 0) {
    return bad_model("its signature does not verify under the required public key");
  }
  return {};
}
#else
Status check_signature(const UserBlock&, const std::string&) {
  return unsupported("require_signature: this build has no libsodium");
}
#endif

}  // namespace dpi
