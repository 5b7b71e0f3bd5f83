// The servers: one that stands alone, or a cluster with its map of slots. The map is kept until a server says
// that it is wrong or does not answer.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "store/redis/node.hpp"
#include "store/redis/resolver.hpp"
#include "store/redis/settings.hpp"
#include "store/redis/slots.hpp"

namespace dpi::redis {

/// Who has which slot. Never changed once others may see it: a change is another one.
struct Topology {
  bool cluster = false;
  std::vector<std::shared_ptr<Node>> nodes;
  std::vector<std::vector<int32_t>> replicas;  // of each node, as indices of nodes
  std::array<int32_t, kSlots> owner{};         // index of a node, -1 = nobody
};

class Cluster {
 public:
  explicit Cluster(Settings settings);

  /// Finds out what is there. Called once, before all else.
  Status connect();
  const Settings& settings() const { return settings_; }
  std::shared_ptr<const Topology> topology() const;
  /// Node::route of the master of a slot.
  int32_t route_of(uint16_t slot) const;

  /// The server of an address that a server named; null when there are more than any cluster has.
  std::shared_ptr<Node> node(const Address& address);
  void moved(int32_t slot, const std::shared_ptr<Node>& to);
  /// Asks the servers who has what, those that answered lately first. One thread at a time does; others go on
  /// with the map that is there: kQueueFull. OK means that this thread has got it.
  Status refresh(uint64_t deadline_ns);
  /// A server did not answer in time: the next call refreshes before it asks for rows.
  void distrust() { stale_.store(true, std::memory_order_relaxed); }
  void refresh_if_stale(uint64_t deadline_ns);

 private:
  Status ask(const std::shared_ptr<Node>& whom, uint64_t deadline_ns);
  Status publish_alone(const std::shared_ptr<Node>& whom);
  Status publish(const std::vector<SlotRange>& ranges);
  void replace(std::shared_ptr<const Topology> with);

  const Settings settings_;
  std::unique_ptr<TlsContext> tls_;  // null without; made by connect
  Resolver resolver_;
  mutable std::mutex mutex_;  // of the next three; held for moments
  std::shared_ptr<const Topology> topology_;
  std::map<std::string, std::shared_ptr<Node>> known_;
  int64_t next_number_ = 0;
  std::mutex refreshing_;
  std::atomic<bool> stale_{false};
  std::atomic<uint64_t> refreshed_ns_{0};
};

}  // namespace dpi::redis
