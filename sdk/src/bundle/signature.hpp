// Ed25519 signatures of a bundle (FORMAT.md part 1). What is signed is a hash of the user block, which holds
// the hashes of everything else; a key is found by its id.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "bundle/user_block.hpp"

namespace dpi {

using PublicKey = std::array<std::byte, 32>;
using SigningSeed = std::array<std::byte, 32>;  // what an Ed25519 secret key is made from

struct SigningKey {
  SigningSeed seed{};
  PublicKey public_key{};
};

/// All of these are kUnsupported in a build without libsodium.
Result<SigningKey> make_signing_key();
Result<SigningKey> signing_key_of(const SigningSeed& seed);
Result<KeyId> key_id_of(const PublicKey& key);
/// The signature that `key` gives to what the block says. The caller answers for its hashes.
Result<Signature> sign_block(const UserBlock& block, const SigningKey& key);

/// 64 hex digits each, separated by commas.
Result<std::vector<PublicKey>> parse_public_keys(const std::string& text);
/// Does a signature of the block verify under one of the keys?
Status check_signature(const UserBlock& block, const std::string& public_keys);

/// Checks every hash of the bundle at `path` and adds a signature by `key`, in place of one by the same key.
/// Signatures are written into room that every user block has: all other bytes stay as they are, so this
/// needs no HDF5 library. `progress` as in Bundle::verify_all.
Status sign_file(const std::string& path, const SigningKey& key, const HashWorkers& workers,
                 const std::function<void(uint64_t, uint64_t)>& progress);
/// Takes the signature of that key away; kNotFound when there is none.
Status remove_signature(const std::string& path, const KeyId& id);

}  // namespace dpi
