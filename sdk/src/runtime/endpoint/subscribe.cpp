// An endpoint's stream: it writes deltas into the folder that the endpoint follows, and sees through here
// what becomes of them.
#include <limits.h>
#include <unistd.h>

#include <utility>

#include "runtime/endpoint/endpoint.hpp"
#include "runtime/stream/abi/stream_plugin.hpp"
#include "runtime/stream/subscription.hpp"

namespace dpi {

namespace {

/// Offsets of a host's endpoint: its own, since every one gets every delta.
std::string default_group(const std::string& endpoint) {
  char host[HOST_NAME_MAX + 1] = "";
  if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  return ("dpi-" + endpoint + "-" + host).substr(0, 255);
}

}  // namespace

struct Endpoint::StreamFollower final : stream::Follower {
  explicit StreamFollower(Endpoint& endpoint) : e(endpoint) {}
  uint64_t serving() const override { return e.number(); }
  Status refusal(const std::string& path) const override {
    const std::lock_guard<std::mutex> lock(e.state_mutex_);
    return e.folder_.refusal(path);
  }
  void look() override {
    const std::lock_guard<std::mutex> lock(e.state_mutex_);
    e.folder_.look_soon();
    e.changed_.notify_all();
  }
  void wait(uint64_t number, uint64_t deadline_ns) override {
    [[maybe_unused]] const Status passed = e.wait(number, deadline_ns);  // who waits looks again
  }
  void tell(LogLevel level, const std::string& text) const override {
    e.tell(level, [&] { return text; });
  }

  Endpoint& e;
};

Status Endpoint::subscribe(const std::string& url, const std::string& folder) {
  DPI_RETURN_IF_ERROR(check_process());
  if (in_callback())
    return invalid_argument("endpoint '" + name_ +
                            "': subscribe was called inside a callback of this endpoint");
  if (folder.empty()) return invalid_argument("the folder's name is empty");
  stream::SubscriptionOptions o;
  DPI_ASSIGN_OR_RETURN(o.url, stream::parse_stream_url(url));
  DPI_ASSIGN_OR_RETURN(const stream::StreamPlugin* plugin,
                       stream::find_stream_plugin(o.url.plugin, options_.backend_dir));
  if (o.url.group.empty()) o.url.group = default_group(name_);
  o.folder = folder;
  o.require_signature = options_.require_signature;
  const std::lock_guard<std::mutex> one_at_a_time(subscribe_mutex_);
  set_subscription(nullptr);  // it may have the same folder
  DPI_ASSIGN_OR_RETURN(auto made, stream::Subscription::start(plugin->api, std::move(o),
                                                              std::make_unique<StreamFollower>(*this)));
  DPI_RETURN_IF_ERROR(follow_folder(folder));
  set_subscription(std::move(made));
  return {};
}

void Endpoint::unsubscribe() {
  if (forked() || in_callback()) return;
  const std::lock_guard<std::mutex> one_at_a_time(subscribe_mutex_);
  set_subscription(nullptr);
}

/// The one before ends, its thread joined: it looks at the endpoint until then.
void Endpoint::set_subscription(std::unique_ptr<stream::Subscription> next) {
  {
    const std::lock_guard<std::mutex> lock(stream_mutex_);
    std::swap(subscription_, next);
  }
}

std::string Endpoint::stream_json() const {
  const std::lock_guard<std::mutex> lock(stream_mutex_);
  return subscription_ != nullptr ? subscription_->status_json() : std::string();
}

}  // namespace dpi
