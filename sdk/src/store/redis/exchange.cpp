#include "store/redis/exchange.hpp"

#include <time.h>

#include <algorithm>
#include <atomic>

#include "base/clock.hpp"
#include "base/printable.hpp"

namespace dpi::redis {
namespace {

constexpr int32_t kQuickRounds = 8;  // redirections that are followed without a pause
constexpr char kWaitMs[] = "3000";   // within a round
constexpr int32_t kMostRefreshes = 8;
constexpr uint64_t kFirstPauseNs = 1'000'000;
constexpr uint64_t kPatientRoundNs = 5'000'000'000;
constexpr uint64_t kLongestPauseNs = 50'000'000;

const std::string kAsking = command({"ASKING"});

bool means_later(const std::string& error) {
  for (const char* word :
       {"TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "BUSY", "READONLY", "NOREPLICAS"}) {
    if (error.starts_with(word)) return true;
  }
  return false;
}

Code code_of(const std::string& error) {
  if (error.starts_with("WRONGTYPE")) return Code::kBadModel;
  return error.starts_with("OOM") ? Code::kOutOfMemory : Code::kIo;
}

}  // namespace

// What one node is asked in one round.
struct Exchange::Share {
  std::shared_ptr<Node> node;
  std::vector<Command*> commands;
  std::vector<uint32_t> replies;  // of each command: the number of its own, behind that of ASKING
  std::vector<TreeSink> asking;
  TreeSink replicated{Item::kInteger};
  Node::Lent lent;
  bool talked = false;
  int32_t turn = 0;
  Status failure;
};

Status Exchange::run(std::span<Command> commands) {
  each_ = false;
  return go(commands);
}

Status Exchange::run_each(std::span<Command> commands) {
  each_ = true;
  failed_ = {};
  Status s = go(commands);
  return failed_.ok() ? s : failed_;
}

Status Exchange::go(std::span<Command> commands) {
  // Not begun, so that no connection is given up for it.
  if (monotonic_ns() >= deadline_ns_) return Status(Code::kTimeout, "the deadline has passed");
  cluster_.refresh_if_stale(deadline_ns_);
  for (int32_t round = 0;; ++round) {
    Next next = Next::kAtOnce;
    DPI_RETURN_IF_ERROR(one_round(commands, &next));
    if (std::all_of(commands.begin(), commands.end(), [](const Command& c) { return c.done || c.failed; }))
      return {};
    if (next == Next::kAfterPause || round >= kQuickRounds) DPI_RETURN_IF_ERROR(pause(round));
  }
}

Status Exchange::one_round(std::span<Command> commands, Next* next) {
  // Who is patient does not wait for one server that hangs as long as for all of them.
  round_until_ns_ = patient_ ? std::min(deadline_ns_, monotonic_ns() + kPatientRoundNs) : deadline_ns_;
  std::vector<Share> shares;
  last_ = assign(commands, &shares);
  if (!last_.ok()) {
    *next = Next::kAfterPause;
    cluster_.distrust();
    cluster_.refresh_if_stale(deadline_ns_);
    if (!each_ || shares.empty()) return {};
  }
  return each_ ? ask_each(shares, next) : ask(shares, next);
}

Status Exchange::ask(std::span<Share> shares, Next* next) {
  lend(shares);
  talk(shares);
  Status result;
  for (Share& share : shares) {  // all of them: each has a connection to give back
    Status s = collect(share, next);
    if (!s.ok() && each_) {
      for (Command* c : share.commands) c->failed = !c->done;
      if (failed_.ok()) failed_ = std::move(s);
    } else if (result.ok()) {
      result = std::move(s);
    }
  }
  return result;
}

// A connection to a server that hangs takes all the time there is to make: servers that have one at hand come
// first, those that failed lately last.
Status Exchange::ask_each(std::span<Share> shares, Next* next) {
  for (Share& s : shares) {
    s.turn = s.node->suspected() ? 2 : 1;
    if (s.turn == 1) s.lent = s.node->borrow_idle();
    if (s.lent.connection != nullptr) s.turn = 0;
  }
  std::stable_sort(shares.begin(), shares.end(),
                   [](const Share& a, const Share& b) { return a.turn < b.turn; });
  for (size_t first = 0, last = 0; first < shares.size(); first = last) {
    while (last < shares.size() && shares[last].turn == shares[first].turn) ++last;
    DPI_RETURN_IF_ERROR(ask(shares.subspan(first, last - first), next));
  }
  return {};
}

std::shared_ptr<Node> Exchange::target(const Topology& t, Command& c) const {
  c.by_replica = false;
  if (c.ask != nullptr) return c.ask;
  const int32_t owner = t.cluster ? t.owner[c.slot] : 0;
  if (owner < 0 || t.nodes.empty()) return nullptr;
  const auto& master = t.nodes[static_cast<size_t>(owner)];
  const auto& replicas = t.replicas[static_cast<size_t>(owner)];
  if (!c.from_replica || replicas.empty()) return master;
  // By slot, so that what goes to one node in a call stays together.
  for (size_t i = 0; i < replicas.size() + 1; ++i) {
    const size_t which = (c.slot + i) % (replicas.size() + 1);
    const auto& n = which == 0 ? master : t.nodes[static_cast<size_t>(replicas[which - 1])];
    if (n->suspected()) continue;
    c.by_replica = which > 0;
    return n;
  }
  return master;
}

Status Exchange::assign(std::span<Command> commands, std::vector<Share>* shares) const {
  const auto t = cluster_.topology();
  Status unserved;
  for (Command& c : commands) {
    if (c.done || c.failed) continue;
    auto node = target(*t, c);
    if (node == nullptr) {
      unserved = Status(Code::kIo, "redis: no server has slot " + std::to_string(c.slot) +
                                       "; `redis-cli --cluster check` tells why");
      continue;
    }
    auto at = std::find_if(shares->begin(), shares->end(), [&](const Share& s) { return s.node == node; });
    if (at == shares->end()) {
      at = shares->insert(shares->end(), Share{});
      at->node = std::move(node);
    }
    at->commands.push_back(&c);
  }
  std::sort(shares->begin(), shares->end(),
            [](const Share& a, const Share& b) { return a.node->number() < b.node->number(); });
  return unserved;
}

void Exchange::lend(std::span<Share> shares) {
  for (Share& s : shares) {
    if (s.lent.connection != nullptr) continue;
    auto lent = s.node->borrow(round_until_ns_);
    if (lent.ok()) {
      s.lent = std::move(lent).value();
    } else {
      s.failure = std::move(lent).status();
    }
  }
}

void Exchange::talk(std::span<Share> shares) {
  std::vector<Connection*> all;
  for (Share& s : shares) {
    if (s.lent.connection == nullptr) continue;
    Connection& c = *s.lent.connection;
    s.asking.reserve(s.commands.size());
    uint32_t replies = 0;
    for (Command* command : s.commands) {
      if (command->ask != nullptr) {
        c.send(kAsking, &s.asking.emplace_back(Item::kStatus));
        ++replies;
      }
      c.send(command->text, command->sink);
      s.replies.push_back(++replies);
    }
    if (wait_replicas_ > 0) c.send(command({"WAIT", std::to_string(wait_replicas_), kWaitMs}), &s.replicated);
    all.push_back(&c);
  }
  converse(all, round_until_ns_);
}

Status Exchange::collect(Share& share, Next* next) {
  Status result;
  size_t answered = 0;
  share.talked = share.lent.connection != nullptr;
  if (share.talked) {
    answered = share.lent.connection->answered();
    share.failure = share.lent.connection->failure();
    share.node->give_back(std::move(share.lent.connection));
  }
  for (size_t i = 0; i < share.commands.size(); ++i) {
    Command& c = *share.commands[i];
    c.ask = nullptr;
    if (i >= share.replies.size() || share.replies[i] > answered) continue;
    Status s = judge(c, *share.node, next);
    if (result.ok()) result = std::move(s);
  }
  if (!result.ok()) return result;
  const bool all =
      std::all_of(share.commands.begin(), share.commands.end(), [](Command* c) { return c->done; });
  if (!share.failure.ok() && (!all || wait_replicas_ > 0)) {
    if (wait_replicas_ > 0) {  // nobody knows what the replicas have: once more
      for (Command* c : share.commands) c->done = false;
    }
    return lost(share, next);
  }
  share.node->trust();
  if (wait_replicas_ > 0 && share.replicated.reply().value < wait_replicas_)
    return Status(Code::kIo, "redis " + share.node->address().text() + ": written, but " +
                                 std::to_string(share.replicated.reply().value) + " of " +
                                 std::to_string(wait_replicas_) + " replicas have it (write_replicas)");
  return {};
}

// One command has been answered.
Status Exchange::judge(Command& c, Node& by, Next* next) {
  const std::string& error = c.sink->error();
  if (error.empty()) {
    c.done = true;
    return {};
  }
  last_ = Status(code_of(error), "redis " + by.address().text() + ": " + printable(error));
  int32_t slot = 0;
  Address to;
  const bool moved = read_redirection(error, "MOVED", by.address(), &slot, &to);
  if (moved || read_redirection(error, "ASK", by.address(), &slot, &to)) {
    const auto node = cluster_.node(to);
    if (node == nullptr) return last_;
    by.redirected();
    if (moved && slot == c.slot) cluster_.moved(slot, node);
    if (!moved) c.ask = node;
    if (moved && c.by_replica) c.from_replica = false;  // it has left that replica's master
    return {};
  }
  if (!means_later(error)) return last_;
  if (c.by_replica) {
    c.from_replica = false;
  } else {
    *next = Next::kAfterPause;
    cluster_.distrust();
    cluster_.refresh_if_stale(deadline_ns_);
  }
  return {};
}

// A connection has gone before everything was answered.
Status Exchange::lost(Share& share, Next* next) {
  last_ = share.failure;
  const bool late = share.failure.code() == Code::kTimeout;
  if (!late && share.failure.code() != Code::kIo) return share.failure;
  if (!late && share.talked) share.node->drop_idle();  // else no new one could be made, which says less
  if (!late && share.lent.used_before) return {};      // the server went while nobody asked it anything
  share.node->suspect(share.failure);
  cluster_.distrust();
  if (late && !patient_) return share.failure;
  if (patient_) {
    *next = Next::kAfterPause;
    cluster_.refresh_if_stale(deadline_ns_);
    return {};
  }
  return elsewhere(share, next);
}

// May another server answer what this one did not?
Status Exchange::elsewhere(Share& share, Next* next) {
  if (refreshes_++ >= kMostRefreshes) return share.failure;
  if (cluster_.refresh(deadline_ns_).code() == Code::kQueueFull) {
    *next = Next::kAfterPause;
    return {};
  }
  const auto t = cluster_.topology();
  for (Command* c : share.commands) {
    if (!c->done && target(*t, *c) == share.node) return share.failure;
  }
  return {};
}

Status Exchange::pause(int32_t round) const {
  const uint64_t wanted = std::min(kFirstPauseNs << std::min(round, 20), kLongestPauseNs);
  const uint64_t now = monotonic_ns();
  if (now + wanted >= deadline_ns_) {
    return Status(Code::kTimeout,
                  "time is up; " + (last_.ok() ? "the cluster is not ready" : last_.message()))
        .native(last_.native_code());
  }
  const timespec t{0, static_cast<long>(wanted)};
  ::nanosleep(&t, nullptr);
  return {};
}

}  // namespace dpi::redis
