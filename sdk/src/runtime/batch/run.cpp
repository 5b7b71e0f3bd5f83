// A chunk's run: its turn, a context, its ops, and what each of its requests gets.
#include <sched.h>

#include <algorithm>
#include <new>
#include <utility>

#include "runtime/batch/lane.hpp"
#include "runtime/batch/open_word.hpp"
#include "runtime/batch/place.hpp"
#include "runtime/execute/parking.hpp"

namespace dpi {

namespace {

/// A chunk waits for no rows: its requests then run by themselves, and those that miss none end at once.
class NoWait final : public RowWait {
 public:
  Status begin() override { return {Code::kQueueFull, "rows missing"}; }
  Status end(bool) override { return {}; }
};

Status given_up(Code code, const char* text) noexcept {
  try {
    return {code, text};
  } catch (const std::bad_alloc&) {
    return {code, ""};
  }
}

}  // namespace

/// The chunk ran, unless this fails: then somebody else must lead it.
Status Lane::lead(Chunk& c, const RunControl& control, const int32_t* abort) {
  const uint32_t number = c.number.load(std::memory_order_relaxed);
  DPI_RETURN_IF_ERROR(await(head_, control, abort, [&](uint32_t head) { return head == number; }));
  DPI_RETURN_IF_ERROR(wait_for_others(c, control, abort));
  DPI_RETURN_IF_ERROR(await(places_, control, abort,
                            [&](uint32_t taken) { return Place::take(places_, taken, most_running_); }));
  std::optional<Place> place(std::in_place, places_);
  RunControl until;
  until.deadline_ns = control.deadline_ns;
  until.cancel = control.cancel != nullptr ? control.cancel : abort;
  Result<ContextPool::Lease> lease = model_.claim(until);
  if (!lease.ok() && (lease.status().code() == Code::kTimeout || lease.status().code() == Code::kCancelled))
    return std::move(lease).status();
  advance(number);
  if (lease.ok()) {
    run(c, std::move(lease).value(), std::move(place));
  } else {
    run(c, {}, std::move(place));
  }
  return {};
}

/// Option batch.max_delay_us: until the chunk is closed, or the time is over. No status where all is well: a
/// text would need memory.
Status Lane::wait_for_others(Chunk& c, const RunControl& control, const int32_t* abort) {
  const auto delay = static_cast<uint64_t>(shared_.settings.max_delay_us) * 1000;
  if (delay == 0) return {};
  const uint64_t end = c.begun_ns + delay;
  const auto over = [&](uint32_t members) { return members != Chunk::kOpen || monotonic_ns() >= end; };
  return await(c.members, control, abort, over, end);
}

/// The next chunk may take a context.
void Lane::advance(uint32_t number) {
  const uint32_t next = (number + 1) % OpenWord::kNumbers;
  head_.set(next);
  const uint32_t i = by_number_[next % 64].load(std::memory_order_seq_cst);
  Chunk& c = chunks_[i];
  if (c.number.load(std::memory_order_relaxed) == next &&
      c.left_to.exchange(0, std::memory_order_seq_cst) == 1)
    shared_.leave_to_threads(this, i, false);
}

/// A chunk that nobody leads waits for its turn without a thread.
void Lane::lead_left(uint32_t chunk) {
  Chunk& c = chunks_[chunk];
  const uint32_t number = c.number.load(std::memory_order_relaxed);
  if (head_.get() != number) {
    c.left_to.store(1, std::memory_order_seq_cst);
    if (head_.get() != number || c.left_to.exchange(0, std::memory_order_seq_cst) != 1) return;
  }
  static_cast<void>(lead(c, {}, nullptr));  // without deadline and flag it does not give up
}

/// How many requests an open chunk has; 0 = nobody joins it any more.
uint32_t Lane::members_in(const Chunk& c) const {
  const OpenWord o = OpenWord::of(open_.load(std::memory_order_acquire));
  return o.chunk == index_of(c) && o.number == c.number.load(std::memory_order_relaxed) ? o.members : 0;
}

/// More callers than processors: those that are ready join while this thread gives its processor up, as long
/// as some do. If instead a thread that joins nothing kept the processor, it is not given up for a while.
void Lane::let_others_join(const Chunk& c) {
  constexpr uint64_t kLongNs = 500'000, kStayNs = 50'000'000;
  if (!crowded_.load(std::memory_order_relaxed) || shared_.settings.max_delay_us != 0) return;
  const uint64_t begin = monotonic_ns();
  if (begin < stays_until_.load(std::memory_order_relaxed)) return;
  const uint32_t first = members_in(c);
  uint32_t members = first;
  for (uint32_t before = 0; members > before; members = members_in(c)) {
    before = members;
    sched_yield();
  }
  const uint64_t end = monotonic_ns();
  if (members == first && end - begin > kLongNs) stays_until_.store(end + kStayNs, std::memory_order_relaxed);
}

uint32_t Lane::seal(Chunk& c) {
  leave_open(c);
  static_cast<void>(await(c.members, {}, nullptr, [](uint32_t n) { return n != Chunk::kOpen; }));
  return c.members.get();
}

void Lane::run(Chunk& c, std::optional<ContextPool::Lease> lease, std::optional<Place> place) {
  let_others_join(c);
  const uint32_t members = seal(c);
  if (crowded_.load(std::memory_order_relaxed) != (members > 1))
    crowded_.store(members > 1, std::memory_order_relaxed);
  static_cast<void>(await(c.packed, {}, nullptr, [&](uint32_t packed) { return packed == members; }));
  c.run_began_ns = monotonic_ns();
  end_late(c, members);
  const int64_t rows = c.rows.rows.rows.item;
  c.again = rows > 0 && !(lease && run_rows(c, *lease).ok());
  c.run_ns = monotonic_ns() - c.run_began_ns;
  if (lease && rows > 0 && !c.again) {
    judge(c, members, *lease);
    lease->times().record_chunk(rows);
    shared_.service_ns.store(c.run_ns, std::memory_order_relaxed);
    shared_.measured_ns.store(c.run_began_ns + c.run_ns, std::memory_order_relaxed);
    count(shared_.chunks);
    count(shared_.chunk_requests, members);
    count(shared_.chunk_rows, static_cast<uint64_t>(rows));
    if (shared_.largest_chunk.load(std::memory_order_relaxed) < static_cast<uint64_t>(rows))
      shared_.largest_chunk.store(static_cast<uint64_t>(rows), std::memory_order_relaxed);
  }
  lease.reset();
  place.reset();
  c.ended.set(1);
  if (deliver(c, members)) leave(c, Chunk::kHeld - members);
}

Status Lane::run_rows(Chunk& c, ContextPool::Lease& lease) {
  NoWait no_wait;
  RunControl control;
  control.row_wait = &no_wait;
  if (c.wants_logits) control.logits = c.logits.data();
  if (c.timed) {
    control.stages = &c.stages;
    c.stages.start();
  }
  const ResolvedRows& rows = c.rows.rows;
  try {
    return lease->run_packed(c.rows, {0, rows.rows.item, 0, rows.rows.shared}, c.out.data(), control);
  } catch (const std::bad_alloc&) {
    return given_up(Code::kOutOfMemory, "out of memory");
  }
}

/// By option nonfinite, each request by its own rows; counts them as calls.
void Lane::judge(Chunk& c, uint32_t members, ContextPool::Lease& lease) {
  const int64_t heads = model_.engine().heads();
  std::span<const FeatureCounters> met(c.counters);
  for (uint32_t i = 0; i < members; ++i) {
    Member& m = c.requests[i];
    if (m.rows.rows() == 0) continue;
    try {
      m.status = model_.check_scores(lease.counters(), m.rows.rows(), c.out.data() + m.rows.begin * heads);
    } catch (const std::bad_alloc&) {
      m.status = given_up(Code::kOutOfMemory, "out of memory");
    }
    if (!m.status.ok()) lease.counters().add_error(m.status.code());
    lease.counters().add_call(m.rows.rows(), met);
    const uint64_t waited = c.run_began_ns - std::min(c.run_began_ns, m.came_ns);
    SlowCalls::Call call;
    call.took_ns = waited + c.run_ns;
    call.waited_ns = waited - std::min(waited, m.resolve_ns);
    if (c.timed) {
      call.stages = c.stages;
      call.stages.add(Stage::kResolve, m.resolve_ns);
    }
    lease.times().record(call.took_ns, waited, m.rows.rows(), c.sampled ? &call.stages : nullptr);
    call.code = m.status.code();
    if (model_.is_slow(call.took_ns)) keep_slow(c, m, call);
    met = {};
  }
  lease.counters().add_users(lease->take_user_counts());
}

void Lane::keep_slow(Chunk& c, const Member& m, SlowCalls::Call call) const {
  call.at_ms = wall_clock_ms();
  call.rows = m.rows.rows();
  call.shared_rows = c.rows.rows.has_map ? m.rows.shared_end - m.rows.shared_begin : 0;
  model_.slow()->keep(call, ids_of(c, m));
}

/// Submitted requests that nobody wants any more.
void Lane::end_late(const Chunk& c, uint32_t members) {
  for (uint32_t i = 0; i < members; ++i) {
    const Member& m = c.requests[i];
    if (m.ticket == nullptr) continue;
    if (m.cancel != nullptr && shared_.tickets.flag_is_set(m.ticket, m.armed, m.cancel))
      end(c, m, given_up(Code::kCancelled, "cancelled by the caller"), 0);
    else if (m.deadline_ns != 0 && c.run_began_ns >= m.deadline_ns)
      end(c, m, given_up(Code::kTimeout, "the deadline passed"), 0);
  }
}

/// False: a thread of the batcher has more to do with the chunk.
bool Lane::deliver(Chunk& c, uint32_t members) {
  for (uint32_t i = 0; i < members; ++i) {
    Member& m = c.requests[i];
    if (m.ticket == nullptr) continue;
    if (c.again) {
      shared_.leave_to_threads(this, index_of(c), true);
      return false;
    }
    const bool waits = m.ticket->word.load(std::memory_order_acquire) == m.armed;  // not cancelled, nor late
    const float* const scores = c.out.data() + m.rows.begin * model_.engine().heads();
    end_record(c, m, waits && m.status.ok() ? scores : nullptr, c.run_ns);
    end(c, m, std::move(m.status), c.run_ns);
  }
  return true;
}

/// out: its scores, null where it has none. The tap lives as long as the lane, which has not been left yet.
void Lane::end_record(const Chunk& c, Member& m, const float* out, uint64_t run_ns) {
  if (m.record == nullptr) return;
  const uint64_t waited = c.run_began_ns - std::min(c.run_began_ns, m.came_ns);
  RecordTap::end(std::exchange(m.record, nullptr), out, waited + run_ns);
}

/// The end of a submitted request, if it has not ended otherwise.
void Lane::end(const Chunk& c, const Member& m, Status status, uint64_t run_ns) {
  Ticket& t = *m.ticket;
  if (!shared_.tickets.begin_end(&t, m.armed)) return;
  if (status.ok()) give_scores(c, m, t.out, t.logits, t.version_out);
  t.version = status.ok() ? model_.version() : 0;
  t.status = std::move(status);
  t.queued_ns = c.run_began_ns - std::min(c.run_began_ns, t.submitted_ns);
  t.run_ns = run_ns;
  shared_.tickets.finish(&t);
  shared_.work.add(1);  // for its callback
}

/// Submitted requests of a chunk that failed.
void Lane::run_singles(uint32_t chunk) {
  Chunk& c = chunks_[chunk];
  const uint32_t members = c.members.get();
  const int64_t heads = model_.engine().heads();
  for (uint32_t i = 0; i < members; ++i) {
    Member& m = c.requests[i];
    if (m.ticket == nullptr) continue;
    if (m.ticket->word.load(std::memory_order_acquire) != m.armed) {
      end_record(c, m, nullptr, 0);
      continue;
    }
    count(shared_.again);
    const uint64_t began = monotonic_ns();
    float* const out = c.out.data() + m.rows.begin * heads;
    Status ran;
    try {
      ran = run_single(c, m, out, c.logits.data() + m.rows.begin * heads);
    } catch (const std::bad_alloc&) {
      ran = given_up(Code::kOutOfMemory, "out of memory");
    }
    const uint64_t run_ns = monotonic_ns() - began;
    end_record(c, m, ran.ok() ? out : nullptr, run_ns);
    end(c, m, std::move(ran), run_ns);
  }
  leave(c, Chunk::kHeld - members);
}

Status Lane::run_single(Chunk& c, const Member& m, float* out, float* logits) {
  RunControl control;
  control.deadline_ns = m.deadline_ns;
  DPI_ASSIGN_OR_RETURN(ContextPool::Lease lease, model_.claim(control));
  DPI_RETURN_IF_ERROR(check_control(control));
  Parking parking(lease, control);
  RunControl watched = control;
  watched.logits = c.wants_logits ? logits : nullptr;
  if (lease.may_park()) watched.row_wait = &parking;
  lease.came_at(m.came_ns);
  SlowCalls::Call call;
  if (model_.slow() != nullptr) {
    watched.stages = &call.stages;
    call.stages.start();
    call.misses = lease->tier_misses();
  }
  Status status = lease->run_packed(c.rows, m.rows, out, watched);
  if (status.ok()) status = model_.check_scores(lease.counters(), m.rows.rows(), out);
  if (!status.ok()) lease.counters().add_error(status.code());
  lease.counters().add_call(m.rows.rows(), {});
  lease.counters().add_users(lease->take_user_counts());
  call.took_ns = monotonic_ns() - m.came_ns;
  call.waited_ns = lease.waited_ns();
  lease.times().record(call.took_ns, call.waited_ns, m.rows.rows(), nullptr);
  call.code = status.code();
  call.misses = model_.slow() != nullptr ? lease->tier_misses() - call.misses : 0;
  if (model_.is_slow(call.took_ns)) keep_slow(c, m, call);
  return status;
}

}  // namespace dpi
