#include "store/redis/node.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/clock.hpp"
#include "base/printable.hpp"

namespace dpi::redis {
namespace {

constexpr uint64_t kSuspectNs = 1'000'000'000;

int64_t wall_ms() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::milliseconds>(system_clock::now().time_since_epoch())
      .count();
}

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
    return Status(readonly.error().starts_with("ERR") ? Code::kInvalidArgument : Code::kIo,
                  "redis " + c.name() + ": cannot be read as a replica: " + printable(readonly.error()));
  return {};
}

}  // namespace

Node::Node(Address address, int64_t number, const Settings& settings, Resolver& resolver,
           const TlsContext* tls)
    : address_(std::move(address)), number_(number), settings_(settings), resolver_(resolver), tls_(tls) {}

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
    one_broken();
  }
  auto made = connect(deadline_ns);
  if (!made.ok()) {
    one_less();
    note_failure(made.status());
    return std::move(made).status();
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (broken_ > 0) --broken_, ++health_.reconnects;
  }
  return Lent{std::move(made).value(), false};
}

Node::Lent Node::borrow_idle() {
  for (;;) {
    std::unique_ptr<Connection> c;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (idle_.empty()) return {};
      c = std::move(idle_.back());
      idle_.pop_back();
    }
    if (c->fresh()) return {std::move(c), true};
    c.reset();
    one_broken();
  }
}

Result<std::unique_ptr<Connection>> Node::connect(uint64_t deadline_ns) {
  const uint64_t until = std::min(deadline_ns, monotonic_ns() + settings_.connect_timeout_ns);
  Status stale;
  DPI_ASSIGN_OR_RETURN(const SocketAddress to, resolver_.find(address_, until, &stale));
  if (!stale.ok()) note_name(stale);
  std::optional<Connection::Secure> secure;
  if (tls_ != nullptr) secure.emplace(*tls_, address_.host);
  DPI_ASSIGN_OR_RETURN(auto c,
                       Connection::open(to, address_.text(), until, secure.has_value() ? &*secure : nullptr));
  DPI_RETURN_IF_ERROR(greet(*c, settings_, until));
  return c;
}

void Node::give_back(std::unique_ptr<Connection> c) {
  // A reply that still comes would be taken for the next command's.
  if (!c->failure().ok() || c->waits()) {
    c.reset();
    return one_broken();
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
    broken_ += gone.size();
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

void Node::one_broken() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    --open_;
    ++broken_;
  }
  returned_.notify_one();
}

void Node::suspect(const Status& why) {
  suspect_until_.store(monotonic_ns() + kSuspectNs, std::memory_order_relaxed);
  note_failure(why);
}

void Node::note_failure(const Status& why) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++health_.failures;
  health_.last_code = static_cast<int32_t>(why.code());
  health_.last_ms = wall_ms();
  copy_printable(why.message(), health_.last_error, sizeof health_.last_error);
  if (health_.down == 0) health_.since_ms = health_.last_ms;
  health_.down = 1;
  unwell_.store(true, std::memory_order_relaxed);
}

/// The server itself may well be up.
void Node::note_name(const Status& why) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++health_.failures;
  health_.last_code = static_cast<int32_t>(why.code());
  health_.last_ms = wall_ms();
  const std::string text = why.message() + " Its last address is used.";
  copy_printable(text, health_.last_error, sizeof health_.last_error);
}

void Node::came_back() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!unwell_.exchange(false, std::memory_order_relaxed)) return;
  health_.down = 0;
  health_.since_ms = wall_ms();
}

void Node::redirected() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++health_.redirects;
}

void Node::tell(dpi_store_node* to) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  *to = health_;
  to->route = route();
  copy_printable(address_.text(), to->address, sizeof to->address);
}

bool Node::suspected() const {
  const uint64_t until = suspect_until_.load(std::memory_order_relaxed);
  return until != 0 && monotonic_ns() < until;
}

}  // namespace dpi::redis
