// A call that finds no free place. Places come free when readers leave, and the call is a reader itself:
// waiting inside its epoch could wait for ever. So it leaves, and one such call at a time gathers as many
// places as it has distinct keys, evicting what it must; then it begins anew with those. Calls that run
// meanwhile finish, because they have their places already or come here too.
#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "base/clock.hpp"
#include "store/tiered/call.hpp"

namespace dpi::tiered {

namespace {

constexpr auto kBetweenLooks = std::chrono::microseconds(100);  // readers leave without a word

Status cancelled() { return {Code::kCancelled, "cancelled while other calls filled the host tier"}; }

}  // namespace

Status HostCache::hold_places(Call& c) {
  if (!c.may_wait) return {Code::kOutOfMemory, "the host tier is full of rows that running calls hold"};
  uint64_t until = monotonic_ns() + options_.place_wait_ns;
  if (c.deadline_ns != 0) until = std::min(until, c.deadline_ns);
  if (c.scarce.owns_lock()) {  // fetches of its places failed, and others took them
    give_back_places(c.r);
    c.scarce.unlock();
  }
  DPI_RETURN_IF_ERROR(count_wanted(c));
  c.scarce = std::unique_lock<std::timed_mutex>(scarce_, std::defer_lock);
  if (!c.scarce.try_lock()) DPI_RETURN_IF_ERROR(c.begin_wait());
  while (!c.scarce.owns_lock() && !c.scarce.try_lock_until(steady_time(c.nap(until)))) {
    if (c.cancelled()) return cancelled();
    if (monotonic_ns() < until) continue;
    if (c.deadline_ns != 0 && monotonic_ns() >= c.deadline_ns)
      return {Code::kTimeout, "the deadline passed while other calls filled the host tier"};
    return {Code::kQueueFull, "the host tier is full, and other calls wait for its places already"};
  }
  return wait_for_places(c, until);
}

/// How many distinct keys the call has missed in each shard, or how many it has; an error when a shard cannot
/// hold them at all.
Status HostCache::count_wanted(Call& c) {
  CacheReader& r = c.r;
  std::fill(r.wanted.begin(), r.wanted.end(), 0);
  if (c.every_key) {
    r.misses.clear();
    for (const CacheLookup& l : c.lookups) {
      for (int64_t i = 0; i < l.n; ++i) distinct(r, l.table, l.keys[i]);
    }
    forget_distinct(r);
  }
  c.every_key = true;  // if the call comes here again: what it evicted now may have been its own
  for (const Miss& m : r.misses) ++r.wanted[static_cast<size_t>(m.shard->number())];
  int32_t held = 0;
  for (size_t s = 0; s < shards_.size(); ++s) {
    if (r.wanted[s] > shards_[s]->places()) {
      return {Code::kOutOfMemory, "the call's " + std::to_string(r.misses.size()) + " distinct keys need " +
                                      std::to_string(r.wanted[s]) +
                                      " places of a part of the host tier that has " +
                                      std::to_string(shards_[s]->places()) + "; the tier has " +
                                      std::to_string(options_.budget) + " bytes"};
    }
    r.stacks[s] = {r.held.data() + held, 0};
    held += r.wanted[s];
  }
  r.misses.clear();
  return {};
}

Status HostCache::wait_for_places(Call& c, uint64_t until) {
  for (;;) {
    bool all = true;
    for (size_t s = 0; s < shards_.size(); ++s) {
      if (c.r.wanted[s] > 0) all = shards_[s]->hold(c.r.wanted[s], &c.r.stacks[s]) && all;
    }
    if (all) return {};
    if (c.cancelled()) return cancelled();
    const uint64_t now = monotonic_ns();
    if (now < until) {
      DPI_RETURN_IF_ERROR(c.begin_wait());
      std::this_thread::sleep_for(kBetweenLooks);
      continue;
    }
    int64_t wanted = 0, held = 0;
    for (size_t s = 0; s < shards_.size(); ++s) wanted += c.r.wanted[s], held += c.r.stacks[s].count;
    const bool late = c.deadline_ns != 0 && now >= c.deadline_ns;
    return {late ? Code::kTimeout : Code::kOutOfMemory,
            "the call needs " + std::to_string(wanted) +
                " places of the host tier at once; running calls left it " + std::to_string(held) +
                " of a tier of " + std::to_string(options_.budget) + " bytes"};
  }
}

void HostCache::give_back_places(CacheReader& r) {
  for (size_t s = 0; s < shards_.size(); ++s) {
    if (r.stacks[s].count > 0) shards_[s]->give_back(&r.stacks[s]);
  }
}

}  // namespace dpi::tiered
