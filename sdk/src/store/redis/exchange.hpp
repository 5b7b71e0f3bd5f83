// Commands to whom they belong, in parallel, until each has an answer: follows MOVED and ASK, waits where the
// cluster says that it is not ready, connects again where a connection has gone, and gives up at a deadline.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "store/redis/cluster.hpp"
#include "store/redis/protocol.hpp"

namespace dpi::redis {

struct Command {
  uint16_t slot = 0;
  std::string text;
  ReplySink* sink = nullptr;
  bool from_replica = false;  // may be answered by one; cleared: by the master only

  // Of the exchange.
  bool done = false;
  bool failed = false;        // by run_each
  bool by_replica = false;    // was answered by one
  std::shared_ptr<Node> ask;  // who answers this once: the slot is on its way to it
};

class Exchange {
 public:
  /// patient: a server that is down is waited for until the deadline (writing); else its error comes at once.
  Exchange(Cluster& cluster, uint64_t deadline_ns, bool patient)
      : cluster_(cluster), deadline_ns_(deadline_ns), patient_(patient) {}

  /// OK: each has been answered and none with an error.
  Status run(std::span<Command> commands);
  /// The same, but a server that fails does not end what the others are asked: with an error, commands that
  /// are not `done` have failed.
  Status run_each(std::span<Command> commands);
  /// After every block of writing to a node: WAIT until so many replicas have it.
  void wait_for_replicas(int32_t replicas) { wait_replicas_ = replicas; }

 private:
  struct Share;
  enum class Next { kAtOnce, kAfterPause };

  Status one_round(std::span<Command> commands, Next* next);
  Status assign(std::span<Command> commands, std::vector<Share>* shares) const;
  std::shared_ptr<Node> target(const Topology& t, Command& c) const;
  Status ask(std::span<Share> shares, Next* next);
  Status ask_each(std::span<Share> shares, Next* next);
  void lend(std::span<Share> shares);
  void talk(std::span<Share> shares);
  Status collect(Share& share, Next* next);
  Status judge(Command& c, Node& by, Next* next);
  Status lost(Share& share, Next* next);
  Status elsewhere(Share& share, Next* next);
  Status pause(int32_t round) const;
  Status go(std::span<Command> commands);

  Cluster& cluster_;
  const uint64_t deadline_ns_;
  const bool patient_;
  int32_t wait_replicas_ = 0;
  int32_t refreshes_ = 0;
  bool each_ = false;
  Status failed_;  // of run_each: the first
  uint64_t round_until_ns_ = 0;
  Status last_;  // why there is another round
};

}  // namespace dpi::redis
