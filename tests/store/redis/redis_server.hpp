// redis-server of the system, started for one test: on ports that were free, in a folder that is removed,
// without persistence; ended with the test, and with its process however that ends.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

struct redisReply;

namespace dpi::test {

/// False, and the program counts as skipped, where redis-server is not installed.
bool redis_installed();

class RedisServer {
 public:
  explicit RedisServer(bool cluster = false, std::vector<std::string> arguments = {});
  ~RedisServer();
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  void start();  // again on the same port, empty
  void kill();   // SIGKILL
  void pause();  // SIGSTOP
  void resume();

  uint16_t port() const { return port_; }
  uint16_t bus_port() const { return bus_port_; }
  /// The port that servers of a cluster name to each other.
  uint16_t peer_port() const { return tls_ ? tls_port_ : port_; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  /// Of a server whose arguments are Certificates::arguments; the other port stays without TLS.
  std::string tls_address(const std::string& host = "127.0.0.1") const {
    return host + ":" + std::to_string(tls_port_);
  }

  /// What a command answers, as text: of a text or status itself, of a number its digits, of an array its
  /// items parted by spaces, of nil "", of an error the error.
  std::string ask(std::initializer_list<std::string> arguments) const;
  /// Of INFO errorstats: how often the server has answered so.
  int64_t errors(const std::string& kind) const;
  /// Of INFO commandstats.
  int64_t calls(const std::string& command) const;

 private:
  bool launch();

  const bool cluster_;
  const std::vector<std::string> arguments_;
  std::string folder_;
  const bool tls_;
  uint16_t port_ = 0, bus_port_ = 0, tls_port_ = 0;
  pid_t pid_ = -1;
};

/// Masters with an even share of the slots each, and as many replicas of each.
class RedisCluster {
 public:
  explicit RedisCluster(int masters, int replicas_each = 0, std::vector<std::string> arguments = {});

  RedisServer& operator[](size_t i) { return *servers_[i]; }
  size_t size() const { return servers_.size(); }
  std::string addresses() const;
  std::string tls_addresses() const;
  void wait_until_ok();
  /// CLUSTER SLOTS names a replica only when it is known to have got something from its master.
  void wait_until_replicas_are_told();
  /// Moves a slot with its keys; with `between` called when half of the keys are there.
  void move_slot(int slot, RedisServer& from, RedisServer& to, void (*between)(void*) = nullptr,
                 void* context = nullptr);
  int64_t errors(const std::string& kind) const;

 private:
  std::vector<std::unique_ptr<RedisServer>> servers_;
};

}  // namespace dpi::test
