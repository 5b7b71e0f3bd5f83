#include "store/redis/cluster.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "base/printable.hpp"

namespace dpi::redis {
namespace {

constexpr size_t kMostNodes = 4096;
constexpr uint64_t kRefreshEveryNs = 100'000'000;
constexpr uint64_t kRefreshAtLeastNs = 30'000'000'000;  // so that it is known which replicas are there
constexpr uint64_t kRefreshTryNs =
    500'000'000;  // of one server, so that one that hangs leaves time for others

int32_t index_of(Topology& t, const std::shared_ptr<Node>& node) {
  const auto at = std::find(t.nodes.begin(), t.nodes.end(), node);
  if (at != t.nodes.end()) return static_cast<int32_t>(at - t.nodes.begin());
  t.nodes.push_back(node);
  t.replicas.emplace_back();
  return static_cast<int32_t>(t.nodes.size()) - 1;
}

bool stands_alone(const std::string& error) {
  return error.starts_with("ERR This instance has cluster support disabled") ||
         error.starts_with("ERR unknown command");
}

Status refusal(const Node& node, const std::string& error) {
  const bool password = error.starts_with("NOAUTH") || error.starts_with("NOPERM");
  return Status(Code::kIo, "redis " + node.address().text() + ": " + printable(error) +
                               (password ? "; check settings 'user' and 'password'" : ""));
}

}  // namespace

Cluster::Cluster(Settings settings) : settings_(std::move(settings)) {
  topology_ = std::make_shared<Topology>();
}

std::shared_ptr<const Topology> Cluster::topology() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return topology_;
}

int32_t Cluster::route_of(uint16_t slot) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const int32_t owner = topology_->cluster ? topology_->owner[slot] : 0;
  const bool nobody = owner < 0 || topology_->nodes.empty();
  return nobody ? DPI_STORE_ROUTES - 1 : topology_->nodes[static_cast<size_t>(owner)]->route();
}

void Cluster::replace(std::shared_ptr<const Topology> with) {
  const std::lock_guard<std::mutex> lock(mutex_);
  topology_.swap(with);
}

std::shared_ptr<Node> Cluster::node(const Address& address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::string text = address.text();
  const auto at = known_.find(text);
  if (at != known_.end()) return at->second;
  if (known_.size() >= kMostNodes) return nullptr;
  auto made = std::make_shared<Node>(address, next_number_++, settings_, resolver_, tls_.get());
  return known_.emplace(std::move(text), std::move(made)).first->second;
}

Status Cluster::connect() {
  if (settings_.tls) {
    DPI_ASSIGN_OR_RETURN(tls_, TlsContext::make(settings_));
  }
  Status first;
  for (const Address& seed : settings_.seeds) {
    const auto whom = node(seed);
    Status s = whom == nullptr
                   ? invalid_argument("setting 'address' names too many servers")
                   : ask(whom, monotonic_ns() + settings_.timeout_ns + settings_.connect_timeout_ns);
    if (s.ok()) break;
    if (first.ok()) first = std::move(s);
  }
  refreshed_ns_.store(monotonic_ns(), std::memory_order_relaxed);
  const auto t = topology();
  if (t->nodes.empty()) return first;
  if (settings_.replicas && !t->cluster)
    return invalid_argument("setting 'replicas' is on, but redis " + t->nodes[0]->address().text() +
                            " stands alone: replicas are found in a cluster only");
  return {};
}

void Cluster::moved(int32_t slot, const std::shared_ptr<Node>& to) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto at = static_cast<size_t>(slot);
  const int32_t owner = topology_->owner[at];
  if (!topology_->cluster || (owner >= 0 && topology_->nodes[static_cast<size_t>(owner)] == to)) return;
  auto next = std::make_shared<Topology>(*topology_);
  next->owner[at] = index_of(*next, to);
  topology_ = std::move(next);
}

void Cluster::refresh_if_stale(uint64_t deadline_ns) {
  const uint64_t since = monotonic_ns() - refreshed_ns_.load(std::memory_order_relaxed);
  if (since < (stale_.load(std::memory_order_relaxed) ? kRefreshEveryNs : kRefreshAtLeastNs)) return;
  if (!topology()->cluster && !stale_.load(std::memory_order_relaxed)) return;
  if (refresh(deadline_ns).ok()) stale_.store(false, std::memory_order_relaxed);
}

Status Cluster::refresh(uint64_t deadline_ns) {
  const std::unique_lock<std::mutex> only(refreshing_, std::try_to_lock);
  if (!only.owns_lock()) return Status(Code::kQueueFull, "another thread is asking the cluster");
  refreshed_ns_.store(monotonic_ns(), std::memory_order_relaxed);
  auto candidates = topology()->nodes;
  for (const Address& seed : settings_.seeds) {
    auto n = node(seed);
    if (n != nullptr && std::find(candidates.begin(), candidates.end(), n) == candidates.end())
      candidates.push_back(std::move(n));
  }
  std::stable_partition(candidates.begin(), candidates.end(), [](const auto& n) { return !n->suspected(); });
  Status last;
  for (const auto& whom : candidates) {
    const uint64_t now = monotonic_ns();
    if (now >= deadline_ns)
      return Status(Code::kTimeout, "the deadline passed before the cluster said which server has the rows");
    last = ask(whom, std::min({deadline_ns, now + (deadline_ns - now) / 2 + 1, now + kRefreshTryNs}));
    if (last.ok()) return {};
    whom->suspect(last);
  }
  return last;
}

Status Cluster::ask(const std::shared_ptr<Node>& whom, uint64_t deadline_ns) {
  DPI_ASSIGN_OR_RETURN(Node::Lent lent, whom->borrow(deadline_ns));
  TreeSink slots(Item::kArray);
  lent.connection->send(command({"CLUSTER", "SLOTS"}), &slots);
  Connection* const one[] = {lent.connection.get()};
  converse(one, deadline_ns);
  Status failure = lent.connection->failure();
  whom->give_back(std::move(lent.connection));
  if (!failure.ok()) return failure;
  whom->trust();
  if (stands_alone(slots.error())) return publish_alone(whom);
  if (!slots.error().empty()) return refusal(*whom, slots.error());
  DPI_ASSIGN_OR_RETURN(const std::vector<SlotRange> ranges, read_slots(slots.reply(), whom->address()));
  if (ranges.empty())
    return Status(Code::kIo, "redis " + whom->address().text() + ": its cluster has no slots yet");
  return publish(ranges);
}

Status Cluster::publish_alone(const std::shared_ptr<Node>& whom) {
  auto next = std::make_shared<Topology>();
  index_of(*next, whom);
  replace(std::move(next));
  return {};
}

Status Cluster::publish(const std::vector<SlotRange>& ranges) {
  auto next = std::make_shared<Topology>();
  next->cluster = true;
  next->owner.fill(-1);
  for (const SlotRange& r : ranges) {
    std::vector<int32_t> at;
    for (const Address& a : r.nodes) {
      const auto n = node(a);
      if (n == nullptr) return Status(Code::kIo, "redis " + a.text() + ": a cluster of too many servers");
      at.push_back(index_of(*next, n));
      if (a.text() != r.nodes[0].text()) n->listed();  // a replica: nobody asks it, and this is how it shows
    }
    std::fill(next->owner.begin() + r.first, next->owner.begin() + r.last + 1, at[0]);
    next->replicas[static_cast<size_t>(at[0])].assign(at.begin() + 1, at.end());
  }
  replace(std::move(next));
  return {};
}

}  // namespace dpi::redis
