// Names of hosts -> addresses within a deadline. The system's lookup knows none, so it runs on a thread of
// its own, which is started with the first name that is not a number and joined at the end.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/status.hpp"
#include "store/redis/connection.hpp"
#include "store/redis/settings.hpp"

namespace dpi::redis {

class Resolver {
 public:
  Resolver() = default;
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  /// Asks anew each time: a server that comes back may have another address. Where that fails, or takes a
  /// quarter of the time to the deadline, the last address that a name had is given, and *stale says why.
  Result<SocketAddress> find(const Address& address, uint64_t deadline_ns, Status* stale);

 private:
  struct Answer {
    bool done = false;
    int error = 0;
    SocketAddress address;
  };
  void run();  // takes no memory: nothing could tell that there is none

  std::mutex mutex_;
  std::condition_variable asked_, answered_;
  std::map<std::string, Answer, std::less<>>
      answers_;  // of names that somebody waits for, or that are being looked up
  std::map<std::string, int, std::less<>> waiting_;
  std::map<std::string, SocketAddress, std::less<>> had_;  // what names had last
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace dpi::redis
