#include "sdk/tools/dpi/shared/key_file.hpp"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/text.hpp"
#include "sdk/tools/dpi/shared/command_error.hpp"
#include "sdk/tools/dpi/shared/loaded_model.hpp"

namespace dpi::tool {
namespace {

constexpr const char* kSecretKind = "dpi-signing-key-1";
constexpr const char* kPublicKind = "dpi-public-key-1";

void write_new_file(const std::string& path, const std::string& text, mode_t mode) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0) throw CommandError(kExitUsage, path + ": cannot be made: " + errno_text(errno));
  const ssize_t wrote = ::write(fd, text.data(), text.size());
  const bool good = wrote == static_cast<ssize_t>(text.size()) && ::fsync(fd) == 0;
  const int error = errno;
  ::close(fd);
  if (good) return;
  ::unlink(path.c_str());
  throw CommandError(kExitOther, path + ": cannot be written: " + errno_text(error));
}

}  // namespace

void write_key_files(const std::string& path, const SigningKey& key) {
  const std::string pub = path + ".pub";
  write_new_file(pub, std::string(kPublicKind) + " " + hex_bytes(key.public_key) + "\n", 0644);
  try {
    write_new_file(path, std::string(kSecretKind) + " " + hex_bytes(key.seed) + "\n", 0600);
  } catch (...) {  // both or none
    ::unlink(pub.c_str());
    throw;
  }
}

namespace {

/// The beginning of a file: a key is one line, and what is named may be /dev/zero.
std::istringstream first_bytes(const std::string& path, bool* is_there) {
  std::ifstream in(path);
  *is_there = in.good();
  std::string bytes(256, '\0');
  in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<size_t>(in.gcount()));
  return std::istringstream(bytes);
}

}  // namespace

SigningKey read_signing_key(const std::string& path) {
  bool is_there = false;
  std::istringstream in = first_bytes(path, &is_there);
  std::string kind, hex, more;
  if (!is_there) throw CommandError(kExitUsage, path + ": cannot be read");
  SigningKey key;
  if (!(in >> kind >> hex) || kind != kSecretKind || in >> more || !parse_hex(hex, key.seed))
    throw CommandError(kExitUsage, path + ": is no signing key (dpi keygen makes one)");
  return take(signing_key_of(key.seed));
}

namespace {

std::string public_key_of(const std::string& word) {
  bool is_there = false;
  std::istringstream in = first_bytes(word, &is_there);
  std::string kind, hex;
  if (!(in >> kind >> hex)) return word;  // no file: the engine says what is wrong with the digits
  if (kind == kSecretKind)
    throw CommandError(kExitUsage, word + ": is the secret key; give " + word + ".pub");
  if (kind != kPublicKind) throw CommandError(kExitUsage, word + ": is no public key (dpi keygen makes one)");
  return hex;
}

}  // namespace

std::string read_public_keys(const std::string& text) {
  std::istringstream words(text);
  std::string keys;
  for (std::string word; std::getline(words, word, ',');)
    keys += (keys.empty() ? "" : ",") + public_key_of(word);
  return keys;
}

KeyId parse_key_id(const std::string& text) {
  KeyId id;
  if (!parse_hex(text, id)) throw CommandError(kExitUsage, "'" + text + "' is no key id of 32 hex digits");
  return id;
}

}  // namespace dpi::tool
