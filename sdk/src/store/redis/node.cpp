#include "store/redis/node.hpp"

#include <algorithm>
#include <chrono>

#include "base/clock.hpp"
#include "base/printable.hpp"

namespace dpi::redis {
namespace {

constexpr uint64_t kSuspectNs = 1'000'000'000;

// What the server says to AUTH and READONLY.
Status greet(Connection& c, const Settings& s, uint64_t deadline_ns) {
  TreeSink auth(Item::kStatus), readonly(Item::kStatus);
  if (!s.password.empty()) {
    c.send(s.user.empty() ? command({"AUTH", s.password}) : command({"AUTH", s.user, s.password}), &auth);
  }
  if (s.replicas) c.send(command({"READONLY"}), &readonly);
  Connection* const one[] = {&c};
  converse(one, deadline_ns);
  Status failure = c.failure();
  c.forget();
  if (!failure.ok()) return failure;
  if (!auth.error().empty())
    return Status(Code::kIo,
                  "redis " + c.name() + ": 'user' and 'password' are refused: " + printable(auth.error()));
  if (!readonly.error().empty())
    return Status(Code::kIo,
                  "redis " + c.name() + ": cannot be read as a replica: " + printable(readonly.error()));
  return {};
}

}  // namespace

Node::Node(Address address, int64_t number, const Settings& settings, Resolver& resolver)
    : address_(std::move(address)), number_(number), settings_(settings), resolver_(resolver) {}

Result<Node::Lent> Node::borrow(uint64_t deadline_ns) {
  const std::chrono::steady_clock::time_point until{std::chrono::nanoseconds(deadline_ns)};
  for (;;) {
    std::unique_ptr<Connection> c;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      const auto may_go = [&] { return !idle_.empty() || open_ < settings_.connections; };
      if (!returned_.wait_until(lock, until, may_go))
        return Status(Code::kTimeout, "redis " + address_.text() + ": all " +
                                          std::to_string(settings_.connections) +
                                          " connections were in use, and none came free in time");
      if (idle_.empty()) {
        ++open_;
        break;
      }
      c = std::move(idle_.back());
      idle_.pop_back();
    }
    if (c->fresh()) return Lent{std::move(c), true};
    c.reset();
    one_less();
  }
  auto made = connect(deadline_ns);
  if (!made.ok()) {
    one_less();
    return std::move(made).status();
  }
  return Lent{std::move(made).value(), false};
}

Result<std::unique_ptr<Connection>> Node::connect(uint64_t deadline_ns) {
  const uint64_t until = std::min(deadline_ns, monotonic_ns() + settings_.connect_timeout_ns);
  DPI_ASSIGN_OR_RETURN(const SocketAddress to, resolver_.find(address_, until));
  DPI_ASSIGN_OR_RETURN(auto c, Connection::open(to, address_.text(), until));
  DPI_RETURN_IF_ERROR(greet(*c, settings_, until));
  return c;
}

void Node::give_back(std::unique_ptr<Connection> c) {
  // A reply that still comes would be taken for the next command's.
  if (!c->failure().ok() || c->waits()) {
    c.reset();
    return one_less();
  }
  c->forget();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    idle_.push_back(std::move(c));
  }
  returned_.notify_one();
}

void Node::drop_idle() {
  std::vector<std::unique_ptr<Connection>> gone;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    gone.swap(idle_);
    open_ -= static_cast<int32_t>(gone.size());
  }
  returned_.notify_all();
}

void Node::one_less() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    --open_;
  }
  returned_.notify_one();
}

void Node::suspect() { suspect_until_.store(monotonic_ns() + kSuspectNs, std::memory_order_relaxed); }

bool Node::suspected() const {
  const uint64_t until = suspect_until_.load(std::memory_order_relaxed);
  return until != 0 && monotonic_ns() < until;
}

}  // namespace dpi::redis
