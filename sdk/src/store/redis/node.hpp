// A server with its connections. Nothing waits for the network with a lock held.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "store/abi/dpi_store.h"
#include "store/redis/connection.hpp"
#include "store/redis/resolver.hpp"
#include "store/redis/settings.hpp"

namespace dpi::redis {

class Node {
 public:
  /// tls: null without.
  Node(Address address, int64_t number, const Settings& settings, Resolver& resolver, const TlsContext* tls);

  const Address& address() const { return address_; }
  /// Who needs connections of several nodes takes them in the order of these: else two could wait for each
  /// other.
  int64_t number() const { return number_; }
  /// The last route is that of slots which no server has.
  int32_t route() const { return static_cast<int32_t>(number_ % (DPI_STORE_ROUTES - 1)); }

  struct Lent {
    std::unique_ptr<Connection> connection;
    bool used_before = false;  // its server may have gone since
  };
  /// One of the pool, or a new one while there are less than `connections`; else waits for one.
  Result<Lent> borrow(uint64_t deadline_ns);
  /// One of the pool; null when there is none.
  Lent borrow_idle();
  /// Back to the pool; closed if it failed or still waits for replies.
  void give_back(std::unique_ptr<Connection> connection);
  /// The server has gone: so have the connections that nobody uses.
  void drop_idle();

  /// It did not answer: for a second others are preferred, where there are any.
  void suspect(const Status& why);
  void trust() {
    suspect_until_.store(0, std::memory_order_relaxed);
    if (unwell_.load(std::memory_order_relaxed)) came_back();
  }
  bool suspected() const;
  /// A server of its cluster says that it is there.
  void listed() {
    if (unwell_.load(std::memory_order_relaxed) && !suspected()) came_back();
  }
  /// It named another server for a slot.
  void redirected();
  /// How its exchanges went, for whoever asks.
  void tell(dpi_store_node* to) const;

 private:
  Result<std::unique_ptr<Connection>> connect(uint64_t deadline_ns);
  void one_less();
  void one_broken();
  void came_back();
  void note_failure(const Status& why);
  void note_name(const Status& why);

  const Address address_;
  const int64_t number_;
  const Settings& settings_;
  Resolver& resolver_;
  const TlsContext* const tls_;
  std::atomic<uint64_t> suspect_until_{0};
  std::atomic<bool> unwell_{true};  // down, or never used
  mutable std::mutex mutex_;        // of the rest
  std::condition_variable returned_;
  std::vector<std::unique_ptr<Connection>> idle_;
  int32_t open_ = 0;
  uint64_t broken_ = 0;  // connections that no new one has replaced
  dpi_store_node health_{};
};

}  // namespace dpi::redis
