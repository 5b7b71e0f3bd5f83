#include "runtime/endpoint/endpoint.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/block_signals.hpp"
#include "base/clock.hpp"
#include "base/forks.hpp"
#include "base/printable.hpp"
#include "runtime/stream/subscription.hpp"

namespace dpi {

namespace {

constexpr size_t kLongestName = 128;
constexpr uint32_t kLeastLines = 64, kMostLines = 1024;

/// Twice the machine's threads: threads settle on lines sooner where there are plenty.
int32_t gate_lines() {
  return static_cast<int32_t>(std::clamp(2 * std::thread::hardware_concurrency(), kLeastLines, kMostLines));
}

}  // namespace

Endpoint::Endpoint(std::string name, const ModelOptions& options, Wrap wrap)
    : name_(std::move(name)), options_(options), wrap_(std::move(wrap)), fork_generation_(fork_generation()) {
  options_.environment = environment_of(options);
  options_.held = held_;
  options_.load = {[](void* user, const char* stage, uint64_t done, uint64_t total) {
                     auto* self = static_cast<Endpoint*>(user);
                     self->stage_.store(stage, std::memory_order_relaxed);
                     self->stage_done_.store(done, std::memory_order_relaxed);
                     self->stage_total_.store(total, std::memory_order_relaxed);
                   },
                   this, &stop_};
}

Result<std::unique_ptr<Endpoint>> Endpoint::create(const std::string& name, const ModelOptions& options,
                                                   Wrap wrap) {
  if (name.empty() || name.size() > kLongestName)
    return invalid_argument("the name of an endpoint has 1 .. " + std::to_string(kLongestName) + " bytes, '" +
                            name + "' has " + std::to_string(name.size()));
  std::unique_ptr<Endpoint> e(new Endpoint(name, options, std::move(wrap)));
  DPI_ASSIGN_OR_RETURN(e->gate_, Gate::make(gate_lines()));
  if (!e->options_.environment->claim_name(name))
    return invalid_argument("the environment has an endpoint '" + name + "' already");
  e->named_ = true;
  const BlockSignals blocked;
  try {
    e->thread_ = std::thread([self = e.get()] { self->work(); });
  } catch (const std::system_error& fault) {
    return Status(Code::kOutOfMemory, std::string("the endpoint's thread cannot be started: ") + fault.what())
        .native(fault.code().value());
  }
  e->options_.environment->observed().add(*e, "endpoint", printable(name));
  return e;
}

Endpoint::~Endpoint() {
  options_.environment->observed().remove(*this);
  unsubscribe();
  __atomic_store_n(&stop_, 1, __ATOMIC_RELEASE);
  {
    const std::lock_guard<std::mutex> lock(state_mutex_);  // between the thread's look and its sleep
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  std::unique_ptr<Version> serving, kept;
  {
    std::unique_lock<std::mutex> lock(state_mutex_);
    changed_.wait(lock, [this] { return running_ == 0; });
    current_.store(nullptr, std::memory_order_seq_cst);
    serving = std::move(serving_);
    kept = std::move(kept_);
  }
  retire(std::move(kept));
  retire(std::move(serving));
  recorder_->close();  // models that callers hold record no more
  if (named_) options_.environment->give_name_back(name_);
}

Status Endpoint::set(std::string_view key, std::string_view value) {
  DPI_RETURN_IF_ERROR(check_process());
  if (Recorder::knows(key)) return recorder_->set(key, value);
  const std::lock_guard<std::mutex> lock(state_mutex_);
  DPI_RETURN_IF_ERROR(set_setting(&settings_, key, value));
  if (key == "keep_seconds" && kept_ != nullptr)
    kept_until_ns_ = std::min(
        kept_until_ns_, monotonic_ns() + static_cast<uint64_t>(settings_.keep_seconds) * 1'000'000'000u);
  changed_.notify_all();
  return {};
}

bool Endpoint::forked() const { return fork_generation() != fork_generation_; }

Status Endpoint::check_process() const {
  if (!forked()) return {};
  return {Code::kForked, "the endpoint was made before fork(); make it again in this process"};
}

Status Endpoint::nothing_loaded() const {
  return {Code::kNotFound,
          "endpoint '" + name_ + "' has no version yet: load one, or follow a folder that has one"};
}

}  // namespace dpi
