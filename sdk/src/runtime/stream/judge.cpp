// Decides what becomes of a message that was read.
#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "bundle/byte_source.hpp"
#include "runtime/stream/subscription.hpp"

namespace dpi::stream {

namespace {

/// Bytes that this release cannot read, and a later one may.
bool may_be_newer(Code code) { return code == Code::kUnsupported || code == Code::kVersion; }

}  // namespace

/// The end of the chain serves.
void Subscription::judge(const std::vector<const SpoolFile*>& chain) {
  const std::string name = options_.url.topic + " offset " + std::to_string(incoming_->offset);
  DeltaOptions options;
  options.require_signature = options_.require_signature;
  auto opened = Delta::open_source(ByteSource::over_memory(incoming_->bytes), name, options);
  if (!opened.ok()) {
    const Status why = std::move(opened).status();
    if (why.code() == Code::kOutOfMemory) return trouble(why);  // incoming_ stays
    const Incoming bad = *std::exchange(incoming_, std::nullopt);
    if (may_be_newer(why.code())) return hold(bad.offset, bad.timestamp_ms, why.message());
    skip(bad.offset, why);
    return;
  }
  const Delta& delta = **opened;
  const SpoolFile& tail = *chain.back();
  if (delta.base() == tail.version) return append(delta, tail);
  const auto same = [&](const SpoolFile* f) { return f->version == delta.version(); };
  if (std::any_of(chain.begin(), chain.end(), same)) return pass_duplicate(same(&tail));
  const Incoming early = *std::exchange(incoming_, std::nullopt);
  hold(early.offset, early.timestamp_ms,
       "it starts from version " + hex_bytes(delta.base()) + ", " + tail.path + " is version " +
           hex_bytes(tail.version));
  if (searched_for_ != tail.version) search(tail.version);
}

void Subscription::append(const Delta& delta, const SpoolFile& tail) {
  const uint64_t above = std::max(tail.number, follower_->serving());
  const auto number = spool_->append(incoming_->bytes, delta, incoming_->timestamp_ms, above);
  if (!number.ok()) return trouble(number.status());  // incoming_ stays
  const Incoming in = *std::exchange(incoming_, std::nullopt);
  errors_ = 0;
  close_gap();
  pending_ = Pending{delta.version(), in.offset, in.next_offset, in.timestamp_ms, {}};
  follower_->look();
}

/// One that the chain has comes again. The newest of them ends a gap: everything up to it is there.
void Subscription::pass_duplicate(bool is_tail) {
  const Incoming in = *std::exchange(incoming_, std::nullopt);
  if (is_tail) close_gap();
  if (!gap_.has_value()) done_below(in.next_offset);
  const std::lock_guard<std::mutex> lock(mutex_);
  ++seen_.duplicates;
}

void Subscription::skip(int64_t offset, const Status& why) {
  follower_->tell(LogLevel::kWarn, "stream: offset " + std::to_string(offset) + " of " +
                                       options_.url.place() + " is passed over: " + why.message());
  if (!gap_.has_value()) done_below(offset + 1);
  const std::lock_guard<std::mutex> lock(mutex_);
  ++seen_.skipped;
  seen_.skipped_offset = offset;
  seen_.skipped_why = why;
}

/// Nothing is committed until a delta fits that comes behind it.
void Subscription::hold(int64_t offset, int64_t timestamp_ms, std::string why) {
  if (!gap_.has_value()) gap_ = Gap{offset, timestamp_ms, std::move(why), 0, false};
  ++gap_->messages;
}

void Subscription::close_gap() {
  if (!gap_.has_value()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  seen_.passed_over += gap_->messages;
  gap_.reset();
}

void Subscription::done_below(int64_t next_offset) {
  api_.commit(handle_.get(), next_offset);
  const std::lock_guard<std::mutex> lock(mutex_);
  seen_.next_offset = next_offset;
}

}  // namespace dpi::stream
