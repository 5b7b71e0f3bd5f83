#include "store/redis/resolver.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string_view>
#include <system_error>

#include "base/block_signals.hpp"
#include "base/clock.hpp"

namespace dpi::redis {
namespace {

constexpr size_t kMostNames = 4096;

int look_up(const char* host, int flags, SocketAddress* out) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host, nullptr, &hints, &found);
  if (error != 0) return error;
  out->length = found->ai_addrlen;
  std::memcpy(&out->bytes, found->ai_addr, found->ai_addrlen);
  ::freeaddrinfo(found);
  return 0;
}

SocketAddress with_port(SocketAddress a, uint16_t port) {
  if (a.bytes.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&a.bytes)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(&a.bytes)->sin_port = htons(port);
  }
  return a;
}

}  // namespace

Resolver::~Resolver() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  asked_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Result<SocketAddress> Resolver::find(const Address& address, uint64_t deadline_ns, Status* stale) {
  SocketAddress found;
  if (look_up(address.host.c_str(), AI_NUMERICHOST, &found) == 0) return with_port(found, address.port);
  std::unique_lock<std::mutex> lock(mutex_);
  if (!thread_.joinable()) {
    const BlockSignals block;
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error&) {
      return Status(Code::kOutOfMemory, "redis " + address.text() + ": no thread to look the name up");
    }
  }
  ++waiting_[address.host];
  answers_.try_emplace(address.host);
  asked_.notify_one();
  const bool had = had_.count(address.host) > 0;
  const uint64_t now = monotonic_ns();
  const uint64_t left = deadline_ns - std::min(deadline_ns, now);
  const std::chrono::steady_clock::time_point until{
      std::chrono::nanoseconds(had ? now + left / 4 : deadline_ns)};
  const bool done = answered_.wait_until(lock, until, [&] { return answers_[address.host].done; });
  const Answer answer = answers_[address.host];
  if (--waiting_[address.host] == 0) {
    waiting_.erase(address.host);
    if (done) answers_.erase(address.host);
  }
  if (done && answer.error == 0) {
    if (had || had_.size() < kMostNames) had_.insert_or_assign(address.host, answer.address);
    return with_port(answer.address, address.port);
  }
  Status why(Code::kTimeout, "redis " + address.text() + ": the name was not found in time");
  if (done)
    why = Status(Code::kIo,
                 "redis " + address.text() + ": " + ::gai_strerror(answer.error) + "; is the name right?")
              .native(answer.error);
  if (!had) return why;
  *stale = std::move(why);
  return with_port(had_.find(address.host)->second, address.port);
}

void Resolver::run() {
  pthread_setname_np(pthread_self(), "dpi-redis-names");
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_) {
    auto next = answers_.begin();
    while (next != answers_.end() && next->second.done) ++next;
    if (next == answers_.end()) {
      asked_.wait(lock);
      continue;
    }
    char host[256];  // as long as parse_address lets a name be
    host[next->first.copy(host, sizeof host - 1)] = 0;
    Answer answer;
    lock.unlock();
    answer.error = look_up(host, 0, &answer.address);
    answer.done = true;
    lock.lock();
    next = answers_.find(std::string_view(host));
    if (next != answers_.end() && waiting_.count(std::string_view(host)) > 0) {
      next->second = answer;
    } else if (next != answers_.end()) {
      answers_.erase(next);  // who asked has gone
    }
    answered_.notify_all();
  }
}

}  // namespace dpi::redis
