// A server of the test's own on a socket: answers each command with what the test says, whole, in drops, or
// broken off.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "store/redis/handle.hpp"

namespace dpi::test {

struct Answer {
  std::string bytes;
  bool close = false;  // after the bytes
  int drop_ms = 0;     // > 0: a byte each time
  int delay_ms = 0;    // before all of it
  size_t endless = 0;  // the last byte so many times more
};

using Command = std::vector<std::string>;
using Answers = std::function<Answer(const Command&)>;

class FakeServer {
 public:
  explicit FakeServer(Answers answers);
  ~FakeServer();
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  void set(Answers answers);
  uint16_t port() const { return port_; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  std::atomic<int> connections{0};

 private:
  void accept_all();
  void serve(int fd);
  bool reply(int fd, const Answer& answer);
  bool put(int fd, const char* data, size_t n);
  void pause(int ms) const;

  std::mutex mutex_;
  Answers answers_;
  std::atomic<bool> stop_{false};
  int listener_ = -1;
  uint16_t port_ = 0;
  std::vector<std::thread> serving_;
  std::thread accepting_;
};

/// What a good server that stands alone says of a complete table in one partition.
Answers good_answers(const KnownTable& t);
std::string bulk(const std::string& text);

}  // namespace dpi::test
