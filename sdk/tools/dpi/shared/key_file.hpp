// Files of keys: one line each, `dpi-signing-key-1 <64 hex digits>` (secret: the seed of an Ed25519 key) and
// `dpi-public-key-1 <64 hex digits>`. The Python package reads the same files.
#pragma once

#include <string>

#include "bundle/signature.hpp"

namespace dpi::tool {

/// Writes PATH, readable by its owner only, and PATH.pub. Neither may exist.
void write_key_files(const std::string& path, const SigningKey& key);
SigningKey read_signing_key(const std::string& path);
/// Public keys parted by commas, each 64 hex digits or a file that write_key_files made (PATH.pub): as 64 hex
/// digits.
std::string read_public_keys(const std::string& text);
/// 32 hex digits.
KeyId parse_key_id(const std::string& text);

}  // namespace dpi::tool
