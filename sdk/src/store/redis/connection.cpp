#include "store/redis/connection.hpp"

#include <fcntl.h>
#include <hiredis/read.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <new>

#include "base/clock.hpp"
#include "base/text.hpp"

namespace dpi::redis {
namespace {

constexpr size_t kReadBytes = 64 << 10;

// The parser wants an object for each piece and looks at none: all of them are this one.
char g_object;

int depth_of(const redisReadTask* task) {
  int depth = 0;
  for (; task->parent != nullptr; task = task->parent) ++depth;
  return depth;
}

// Runs below C code: nothing may be thrown through it.
void* tell(const redisReadTask* task, Item::Kind kind, std::string_view text, int64_t value) noexcept {
  try {
    const Item item{kind, depth_of(task), task->parent != nullptr ? task->idx : 0, text, value};
    return static_cast<Connection*>(task->privdata)->take(item) ? &g_object : nullptr;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

Item::Kind kind_of(int type) {
  if (type == REDIS_REPLY_ERROR) return Item::kError;
  return type == REDIS_REPLY_STATUS ? Item::kStatus : Item::kText;
}

redisReplyObjectFunctions g_functions = {
    [](const redisReadTask* t, char* s, size_t n) { return tell(t, kind_of(t->type), {s, n}, 0); },
    [](const redisReadTask* t, int n) { return tell(t, Item::kArray, {}, n); },
    [](const redisReadTask* t, long long v) { return tell(t, Item::kInteger, {}, v); },
    [](const redisReadTask* t) { return tell(t, Item::kNil, {}, 0); },
    [](void*) {},
};

timespec time_left(uint64_t deadline_ns) {
  const uint64_t now = monotonic_ns();
  const uint64_t left = deadline_ns > now ? deadline_ns - now : 0;
  return {static_cast<time_t>(left / 1'000'000'000), static_cast<long>(left % 1'000'000'000)};
}

// 0, or the errno of a connect that is under way.
int wait_for_connect(int fd, uint64_t deadline_ns) {
  pollfd p{fd, POLLOUT, 0};
  for (;;) {
    const timespec left = time_left(deadline_ns);
    const int n = ::ppoll(&p, 1, &left, nullptr);
    if (n == 0) return ETIMEDOUT;
    if (n > 0) break;
    if (errno != EINTR) return errno;
  }
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

}  // namespace

Connection::Connection(int fd, std::string name)
    : fd_(fd), name_(std::move(name)), reader_(redisReaderCreateWithFunctions(&g_functions)) {}

Connection::~Connection() {
  if (reader_ != nullptr) redisReaderFree(reader_);
  ::close(fd_);
}

Result<std::unique_ptr<Connection>> Connection::open(const SocketAddress& to, std::string name,
                                                     uint64_t deadline_ns) {
  const int fd = ::socket(to.bytes.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return Status(Code::kIo, "redis " + name + ": no socket: " + errno_text(errno)).native(errno);
  std::unique_ptr<Connection> c(new Connection(fd, std::move(name)));
  if (c->reader_ == nullptr) return Status(Code::kOutOfMemory, "redis " + c->name_ + ": out of memory");
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  c->reader_->privdata = c.get();
  int error = ::connect(fd, reinterpret_cast<const sockaddr*>(&to.bytes), to.length) == 0 ? 0 : errno;
  if (error == EINPROGRESS) error = wait_for_connect(fd, deadline_ns);
  if (error == 0) return c;
  const Code code = error == ETIMEDOUT ? Code::kTimeout : Code::kIo;
  return Status(code, "redis " + c->name_ + ": cannot connect: " + errno_text(error) +
                          "; is the server running, and is the address right?")
      .native(error);
}

void Connection::send(std::string_view text, ReplySink* sink) {
  out_ += text;
  sink->start_over();
  sinks_.push_back(sink);
}

void Connection::forget() {
  sinks_.clear();
  answered_ = 0;
  out_.clear();
  sent_ = 0;
}

bool Connection::fresh() const {
  char byte = 0;
  return ::recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN &&
         reader_->len == reader_->pos;
}

short Connection::wanted() const { return static_cast<short>(POLLIN | (sent_ < out_.size() ? POLLOUT : 0)); }

void Connection::progress(short events) {
  if ((events & POLLOUT) != 0) write_some();
  if (failure_.ok() && (events & (POLLIN | POLLHUP | POLLERR)) != 0) read_some();
}

void Connection::write_some() {
  while (sent_ < out_.size()) {
    const ssize_t n = ::send(fd_, out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0) return fail(Code::kIo, "the connection broke: " + errno_text(errno), errno);
    sent_ += static_cast<size_t>(n);
  }
}

void Connection::read_some() {
  char block[kReadBytes];
  ssize_t n = 0;
  do {
    n = ::recv(fd_, block, sizeof block, 0);
  } while (n < 0 && errno == EINTR);
  if (n < 0 && errno == EAGAIN) return;
  if (n < 0) return fail(Code::kIo, "the connection broke: " + errno_text(errno), errno);
  if (n == 0) return fail(Code::kIo, "the server closed the connection");
  if (redisReaderFeed(reader_, block, static_cast<size_t>(n)) != REDIS_OK)
    return fail(Code::kOutOfMemory, "out of memory");
  parse();
}

void Connection::parse() {
  while (answered_ < sinks_.size()) {
    void* reply = nullptr;
    if (redisReaderGetReply(reader_, &reply) != REDIS_OK) return fail(Code::kIo, "the answer is not valid");
    if (reply != nullptr) {
      ++answered_;
      continue;
    }
    // What is left is the beginning of one text or line.
    if (reader_->len - reader_->pos > sinks_[answered_]->limit() + 64)
      fail(Code::kIo, "the answer is longer than the command allows");
    return;
  }
  if (reader_->len != reader_->pos) fail(Code::kIo, "more answers than commands");
}

bool Connection::take(const Item& item) { return answered_ < sinks_.size() && sinks_[answered_]->take(item); }

void Connection::fail(Code code, const std::string& what, int error) {
  if (failure_.ok()) failure_ = Status(code, "redis " + name_ + ": " + what).native(error);
}

void converse(std::span<Connection* const> connections, uint64_t deadline_ns) {
  for (Connection* c : connections) c->progress(POLLOUT);  // to all, before anyone's answer is waited for
  std::vector<pollfd> polled;
  std::vector<Connection*> waiting;
  for (;;) {
    polled.clear();
    waiting.clear();
    for (Connection* c : connections) {
      if (!c->waits()) continue;
      polled.push_back({c->fd(), c->wanted(), 0});
      waiting.push_back(c);
    }
    if (waiting.empty()) return;
    const timespec left = time_left(deadline_ns);
    const bool late = left.tv_sec == 0 && left.tv_nsec == 0;
    const int n = late ? 0 : ::ppoll(polled.data(), polled.size(), &left, nullptr);
    if (n == 0 || (n < 0 && errno != EINTR)) {
      for (Connection* c : waiting) c->give_up();
      return;
    }
    for (size_t i = 0; n > 0 && i < waiting.size(); ++i) waiting[i]->progress(polled[i].revents);
  }
}

}  // namespace dpi::redis
