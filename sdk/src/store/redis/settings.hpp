// What a user may set: the pairs of dpi_store_options, checked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "store/abi/dpi_store.h"

namespace dpi::redis {

struct Address {
  std::string host;
  uint16_t port = 0;

  /// "127.0.0.1:6379", "[::1]:6379".
  std::string text() const;
  bool operator==(const Address&) const = default;
};

/// The reverse of Address::text; false when it is none.
bool parse_address(std::string_view text, Address* out);

struct Settings {
  std::vector<Address> seeds;
  std::string user, password;
  bool tls = false;
  std::string tls_ca, tls_cert, tls_key;        // files; no tls_ca = the system's certificates
  bool replicas = false;                        // rows may be read from replicas
  int32_t connections = 0;                      // per node at most; 0 = as many as threads fetch at once
  int64_t partitions = 0;                       // of tables that are written; 0 = chosen from their rows
  int32_t write_replicas = 0;                   // a write waits until so many replicas have it
  uint64_t timeout_ns = 1'000'000'000;          // of a fetch without a deadline, and of what open asks
  uint64_t connect_timeout_ns = 1'000'000'000;  // of one connection with its AUTH
  uint64_t write_timeout_ns = 30'000'000'000;   // of one block of writing, failovers included
  uint64_t lease_ns = 10'000'000'000;  // a writer that is silent for so long may be followed by another
};

/// The keys that parse_settings knows, parted by ", ".
extern const char kSettingNames[];

Result<Settings> parse_settings(const dpi_store_options& options);

}  // namespace dpi::redis
