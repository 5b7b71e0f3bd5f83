// libsodium's BLAKE2b with a personalisation. For the files of this folder that are built with libsodium.
#pragma once

#include <sodium.h>

#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>

#include "base/status.hpp"
#include "bundle/content_hash.hpp"

namespace dpi {

/// Made while the library is loaded: sodium_init takes a lock, which a child that is forked while another
/// thread has it would wait for for ever.
inline const bool kSodiumStarted = sodium_init() >= 0;

inline Status start_sodium() {
  return kSodiumStarted ? Status() : internal_error("libsodium cannot be initialised");
}

class Blake2b {
 public:
  Blake2b() = default;
  /// `person`: at most 16 characters, filled up with zeros. `size`: bytes of the result, at most 32.
  explicit Blake2b(std::string_view person, size_t size = sizeof(ContentHash)) : size_(size) {
    unsigned char personal[crypto_generichash_blake2b_PERSONALBYTES] = {};
    std::memcpy(personal, person.data(), person.size() < sizeof personal ? person.size() : sizeof personal);
    (void)crypto_generichash_blake2b_init_salt_personal(&state_, nullptr, 0, size_, nullptr, personal);
  }
  void add(std::span<const std::byte> bytes) {
    (void)crypto_generichash_blake2b_update(&state_, reinterpret_cast<const unsigned char*>(bytes.data()),
                                            bytes.size());
  }
  ContentHash finish() {
    ContentHash out{};
    (void)crypto_generichash_blake2b_final(&state_, reinterpret_cast<unsigned char*>(out.data()), size_);
    return out;
  }

 private:
  crypto_generichash_blake2b_state state_{};
  size_t size_ = sizeof(ContentHash);
};

}  // namespace dpi
