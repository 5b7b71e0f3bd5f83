// One connection: a socket of our own, because hiredis writes with write(), which raises SIGPIPE in the
// host's process, and waits longer than a deadline; hiredis parses what comes. Used by one thread at a time.
//
//   c.send(command({"GET", "x"}), &sink); converse({&c, 1}, deadline); c.failure()
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "store/redis/protocol.hpp"
#include "store/redis/tls.hpp"

struct redisReader;

namespace dpi::redis {

struct SocketAddress {
  sockaddr_storage bytes{};
  socklen_t length = 0;
};

class Connection {
 public:
  /// Whom a connection over TLS is for.
  struct Secure {
    const TlsContext& context;
    const std::string& host;
  };
  /// Connected when it returns; kTimeout when that took too long. `name` is for texts; tls may be null.
  static Result<std::unique_ptr<Connection>> open(const SocketAddress& to, std::string name,
                                                  uint64_t deadline_ns, const Secure* tls = nullptr);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// To be sent by converse; its reply goes to the sink, which outlives that.
  void send(std::string_view text, ReplySink* sink);
  bool waits() const { return failure_.ok() && answered_ < sinks_.size(); }
  /// How many of the commands since forget() are answered.
  size_t answered() const { return answered_; }
  const Status& failure() const { return failure_; }
  /// Before it goes back to a pool.
  void forget();
  /// Neither closed by the other end nor with anything in it that nobody asked for.
  bool fresh() const;
  const std::string& name() const { return name_; }

  int fd() const { return fd_; }
  short wanted() const;
  void progress(short events);
  void give_up() { fail(Code::kTimeout, "no answer in time"); }
  /// What the parser calls.
  bool take(const Item& item);

 private:
  Connection(int fd, std::string name);
  Status shake_hands(const SocketAddress& to, uint64_t deadline_ns, const Secure& tls);
  void write_some();
  void read_some();
  void parse();
  void fail(Code code, const std::string& what, int error = 0);

  ssize_t send_bytes(const char* bytes, size_t n);
  ssize_t receive_bytes(char* bytes, size_t n);
  void broke();
  void closed();

  int fd_;
  const std::string name_;
  redisReader* reader_;
  std::unique_ptr<TlsStream> tls_;  // null: none
  bool heard_ = false;              // the server has said something
  std::string out_;
  size_t sent_ = 0;
  std::vector<ReplySink*> sinks_;
  size_t answered_ = 0;
  Status failure_;
};

/// Sends and receives on all of them at once until each has its replies, has failed, or time is up; then
/// those that still wait have failed with kTimeout.
void converse(std::span<Connection* const> connections, uint64_t deadline_ns);

}  // namespace dpi::redis
