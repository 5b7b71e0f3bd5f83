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
constexpr char kTlsAlert = 0x15, kTlsHandshake = 0x16;  // the first byte of what a server with TLS sends
const char kNoTls[] = "the server does not speak TLS on this port; set 'tls' off, or give its TLS port";

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

// 0, or an errno.
int wait_for(int fd, short events, uint64_t deadline_ns) {
  pollfd p{fd, events, 0};
  for (;;) {
    const timespec left = time_left(deadline_ns);
    const int n = ::ppoll(&p, 1, &left, nullptr);
    if (n == 0) return ETIMEDOUT;
    if (n > 0) return 0;
    if (errno != EINTR) return errno;
  }
}

// 0, or the errno of a connect that is under way.
int wait_for_connect(int fd, uint64_t deadline_ns) {
  if (const int error = wait_for(fd, POLLOUT, deadline_ns); error != 0) return error;
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

bool speaks_without_tls(const SocketAddress& to, const std::string& name, uint64_t deadline_ns) {
  const uint64_t now = monotonic_ns();
  const uint64_t until = now + (deadline_ns > now ? deadline_ns - now : 0) / 2;
  const auto c = Connection::open(to, name, until);
  if (!c.ok()) return false;
  TreeSink pong(Item::kStatus);
  (*c)->send(command({"PING"}), &pong);
  Connection* const one[] = {c->get()};
  converse(one, until);
  return (*c)->answered() == 1;
}

}  // namespace

Connection::Connection(int fd, std::string name)
    : fd_(fd), name_(std::move(name)), reader_(redisReaderCreateWithFunctions(&g_functions)) {}

Connection::~Connection() {
  tls_.reset();
  if (reader_ != nullptr) redisReaderFree(reader_);
  ::close(fd_);
}

Result<std::unique_ptr<Connection>> Connection::open(const SocketAddress& to, std::string name,
                                                     uint64_t deadline_ns, const Secure* tls) {
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
  if (error == 0) {
    if (tls != nullptr) DPI_RETURN_IF_ERROR(c->shake_hands(to, deadline_ns, *tls));
    return c;
  }
  const Code code = error == ETIMEDOUT ? Code::kTimeout : Code::kIo;
  return Status(code, "redis " + c->name_ + ": cannot connect: " + errno_text(error) +
                          "; is the server running, and is the address right?")
      .native(error);
}

// A server without TLS waits for the end of a line that never comes, so silence is looked into: does it
// answer a PING?
Status Connection::shake_hands(const SocketAddress& to, uint64_t deadline_ns, const Secure& tls) {
  auto made = TlsStream::make(tls.context, fd_, tls.host);
  if (!made.ok()) return std::move(made).status().within("redis " + name_);
  tls_ = std::move(made).value();
  const uint64_t now = monotonic_ns();
  uint64_t until = deadline_ns > now ? now + (deadline_ns - now) / 2 : now;
  for (;;) {
    const TlsStream::Step step = tls_->shake_hands();
    if (step == TlsStream::Step::kDone) return {};
    if (step == TlsStream::Step::kFailed) return Status(tls_->failure()).within("redis " + name_);
    if (const int error = wait_for(fd_, tls_->wanted(), until); error == 0) continue;
    if (until == deadline_ns)
      return Status(Code::kTimeout, "redis " + name_ + ": no answer to the TLS handshake in time");
    if (!tls_->heard() && speaks_without_tls(to, name_, deadline_ns))
      return Status(Code::kIo, "redis " + name_ + ": " + kNoTls);
    until = deadline_ns;
  }
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
  if (tls_ != nullptr) return tls_->quiet() && reader_->len == reader_->pos;
  char byte = 0;
  return ::recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN &&
         reader_->len == reader_->pos;
}

short Connection::wanted() const {
  const bool write = sent_ < out_.size() || (tls_ != nullptr && tls_->wanted() == POLLOUT);
  return static_cast<short>(POLLIN | (write ? POLLOUT : 0));
}

// TLS may have to read before it writes, and the reverse.
void Connection::progress(short events) {
  if ((events & POLLOUT) != 0 || (tls_ != nullptr && events != 0)) write_some();
  const bool read = (events & (POLLIN | POLLHUP | POLLERR)) != 0 || (tls_ != nullptr && events != 0);
  if (failure_.ok() && read) read_some();
}

ssize_t Connection::send_bytes(const char* bytes, size_t n) {
  return tls_ != nullptr ? tls_->send(bytes, n) : ::send(fd_, bytes, n, MSG_NOSIGNAL);
}

ssize_t Connection::receive_bytes(char* bytes, size_t n) {
  return tls_ != nullptr ? tls_->receive(bytes, n) : ::recv(fd_, bytes, n, 0);
}

void Connection::broke() {
  const int error = errno;
  if (tls_ != nullptr && !tls_->failure().ok()) return fail(Code::kIo, tls_->failure().message(), 0);
  if (error == ECONNRESET && tls_ == nullptr && !heard_) return closed();
  fail(Code::kIo, "the connection broke: " + errno_text(error), error);
}

void Connection::closed() {
  const bool first = tls_ == nullptr && !heard_;
  fail(Code::kIo, std::string("the server closed the connection") +
                      (first ? " before it said anything; if it speaks TLS on this port, set 'tls' on" : ""));
}

void Connection::write_some() {
  while (sent_ < out_.size()) {
    const ssize_t n = send_bytes(out_.data() + sent_, out_.size() - sent_);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0) return broke();
    if (n == 0) return closed();
    sent_ += static_cast<size_t>(n);
  }
}

void Connection::read_some() {
  char block[kReadBytes];
  do {
    ssize_t n = 0;
    do {
      n = receive_bytes(block, sizeof block);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0) return broke();
    if (n == 0) return closed();
    if (!heard_ && tls_ == nullptr && (block[0] == kTlsAlert || block[0] == kTlsHandshake))
      return fail(Code::kIo, "the server speaks TLS on this port: set 'tls' on");
    heard_ = true;
    if (redisReaderFeed(reader_, block, static_cast<size_t>(n)) != REDIS_OK)
      return fail(Code::kOutOfMemory, "out of memory");
    parse();
  } while (tls_ != nullptr && failure_.ok() && tls_->holds_bytes());
}

void Connection::parse() {
  while (answered_ < sinks_.size()) {
    void* reply = nullptr;
    if (redisReaderGetReply(reader_, &reply) != REDIS_OK)
      return fail(Code::kIo, "the answer is not in Redis' protocol: is the address that of a Redis server?");
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
