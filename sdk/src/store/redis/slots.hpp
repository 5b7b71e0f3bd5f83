// Where keys live: the slots of Redis Cluster, and what its servers say of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "store/redis/protocol.hpp"
#include "store/redis/settings.hpp"

namespace dpi::redis {

constexpr int32_t kSlots = 16384;

/// CRC16 (XMODEM) of the part between the first '{' and the next '}', if that is not empty; else of the key.
uint16_t slot_of(std::string_view key);

struct SlotRange {
  int32_t first, last;
  std::vector<Address> nodes;  // the master, then its replicas
};

/// The answer to CLUSTER SLOTS of the node at `from`: a node that leaves its own host out means that one.
Result<std::vector<SlotRange>> read_slots(const Reply& reply, const Address& from);

/// "MOVED 3999 127.0.0.1:6381", "ASK ...": false when it is not that.
bool read_redirection(std::string_view error, std::string_view word, const Address& from, int32_t* slot,
                      Address* to);

}  // namespace dpi::redis
