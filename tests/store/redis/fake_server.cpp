#include "store/redis/fake_server.hpp"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>

namespace dpi::test {
namespace {

// Takes one command off the front; false if it is not whole yet.
bool take_command(std::string& in, Command* out) {
  out->clear();
  size_t at = in.find("\r\n");
  if (at == in.npos) return false;
  const int n = std::atoi(in.c_str() + 1);
  at += 2;
  for (int i = 0; i < n; ++i) {
    const size_t end = in.find("\r\n", at);
    if (end == in.npos) return false;
    const auto size = static_cast<size_t>(std::atoll(in.c_str() + at + 1));
    if (in.size() < end + 2 + size + 2) return false;
    out->push_back(in.substr(end + 2, size));
    at = end + 2 + size + 2;
  }
  in.erase(0, at);
  return true;
}

}  // namespace

std::string bulk(const std::string& text) {
  return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
}

FakeServer::FakeServer(Answers answers) : answers_(std::move(answers)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof a;
  REQUIRE(::bind(listener_, reinterpret_cast<sockaddr*>(&a), sizeof a) == 0);
  REQUIRE(::listen(listener_, 64) == 0);
  REQUIRE(::getsockname(listener_, reinterpret_cast<sockaddr*>(&a), &size) == 0);
  port_ = ntohs(a.sin_port);
  accepting_ = std::thread([this] { accept_all(); });
}

FakeServer::~FakeServer() {
  stop_ = true;
  accepting_.join();
  for (std::thread& t : serving_) t.join();
  ::close(listener_);
}

void FakeServer::set(Answers answers) {
  const std::lock_guard<std::mutex> lock(mutex_);
  answers_ = std::move(answers);
}

void FakeServer::pause(int ms) const {
  for (int i = 0; i < ms && !stop_; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void FakeServer::accept_all() {
  while (!stop_) {
    pollfd p{listener_, POLLIN, 0};
    if (::poll(&p, 1, 20) <= 0) continue;
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    ++connections;
    serving_.emplace_back([this, fd] {
      serve(fd);
      ::close(fd);
    });
  }
}

void FakeServer::serve(int fd) {
  std::string in;
  char block[65536];
  while (!stop_) {
    pollfd p{fd, POLLIN, 0};
    if (::poll(&p, 1, 20) <= 0) continue;
    const ssize_t n = ::recv(fd, block, sizeof block, 0);
    if (n <= 0) return;
    in.append(block, static_cast<size_t>(n));
    for (Command c; take_command(in, &c);) {
      Answer answer;
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        answer = answers_(c);
      }
      if (!reply(fd, answer)) return;
    }
  }
}

bool FakeServer::reply(int fd, const Answer& a) {
  pause(a.delay_ms);
  const size_t step = a.drop_ms > 0 ? 1 : a.bytes.size();
  for (size_t at = 0; at < a.bytes.size() && !stop_; at += step) {
    if (!put(fd, a.bytes.data() + at, step)) return false;
    pause(a.drop_ms);
  }
  const std::string more(65536, a.bytes.empty() ? 'x' : a.bytes.back());
  for (size_t sent = 0; sent < a.endless && !stop_; sent += more.size()) {
    if (!put(fd, more.data(), more.size())) return false;
  }
  return !a.close;
}

bool FakeServer::put(int fd, const char* data, size_t n) {
  while (n > 0 && !stop_) {
    pollfd p{fd, POLLOUT, 0};
    if (::poll(&p, 1, 20) <= 0) continue;
    const ssize_t sent = ::send(fd, data, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent <= 0) return false;
    data += sent;
    n -= static_cast<size_t>(sent);
  }
  return !stop_;
}

Answers good_answers(const KnownTable& t) {
  const auto n = [](int64_t v) { return std::to_string(v); };
  const std::vector<std::string> record = {
      "name",      t.name,           "content", t.content,   "dim",      n(t.dim),   "dtype",      "0",
      "row_bytes", n(t.row_bytes()), "rows",    n(t.rows()), "keyed",    n(t.keyed), "partitions", "1",
      "written",   n(t.rows()),      "digest",  "0",         "complete", "1"};
  std::string hgetall = "*" + n(static_cast<int64_t>(record.size())) + "\r\n";
  for (const std::string& r : record) hgetall += bulk(r);
  return [&t, hgetall, n](const Command& c) -> Answer {
    if (c[0] == "CLUSTER") return {"-ERR This instance has cluster support disabled\r\n"};
    if (c[0] == "HGETALL") return {hgetall};
    if (c[0] == "HLEN") return {":" + n(t.rows() + 1) + "\r\n"};
    if (c[0] != "HMGET") return {"+OK\r\n"};
    std::string all = "*" + n(static_cast<int64_t>(c.size()) - 2) + "\r\n";
    for (size_t i = 2; i < c.size(); ++i) {
      int64_t key = 0;
      if (c[i].size() == 8) std::memcpy(&key, c[i].data(), 8);
      const unsigned char* row = c[i].size() == 8 ? t.row(key) : nullptr;
      if (row != nullptr) {
        all += bulk({reinterpret_cast<const char*>(row), static_cast<size_t>(t.row_bytes())});
      } else {
        all += c[i] == "sealed" ? bulk("dpi1 1") : "$-1\r\n";
      }
    }
    return {all};
  };
}

}  // namespace dpi::test
