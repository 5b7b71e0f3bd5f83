// The callers' side of a lane: at once, or into a chunk and out of it.
#include <algorithm>
#include <new>

#include "base/spin.hpp"
#include "runtime/batch/lane.hpp"
#include "runtime/batch/open_word.hpp"
#include "runtime/batch/place.hpp"

namespace dpi {

namespace {

constexpr int64_t kPackSpinNs = 2000;  // a request of a few rows is packed in less

void leave_gate(const BatchRequest& r) {
  if (r.pass != nullptr) r.pass->leave();
}

Status out_of_memory() { return {Code::kOutOfMemory, "out of memory"}; }

}  // namespace

Status Lane::predict(const BatchRequest& r) {
  const Batch& b = r.batch;
  if (b.item.rows < 1 || b.item.rows > max_rows_ || b.shared.rows > max_rows_) return run_alone(r);
  const OpenWord o = OpenWord::of(open_.load(std::memory_order_acquire));
  const bool nobody_waits = !o.open() && head_.get() == o.next_number();
  if (nobody_waits && shared_.settings.max_delay_us == 0 && !crowded_.load(std::memory_order_relaxed) &&
      Place::take(places_, places_.get(), most_running_)) {
    std::optional<ContextPool::Lease> lease;  // given back last: until then the lane stays
    const Place place(places_);
    DPI_ASSIGN_OR_RETURN(lease, model_.try_claim());
    if (lease) return run_here(*lease, r);
  }
  Status fits = check_batch(model_.engine().schema(), b);
  if (fits.ok()) fits = check_on_time(r.control);
  if (!fits.ok()) return model_.refuse(std::move(fits));
  if (!fits_alone(b)) return run_alone(r);
  Result<Seat> seat = sit(r, nullptr, nullptr);
  if (!seat.ok()) return model_.refuse(std::move(seat).status());
  return seat->chunk == nullptr ? run_alone(r) : wait_for_scores(*seat, r);
}

Status Lane::submit(const BatchRequest& r, uint64_t user, uint64_t* number) {
  const Batch& b = r.batch;
  DPI_RETURN_IF_ERROR(check_batch(model_.engine().schema(), b));
  if (b.item.rows < 1 || b.item.rows > max_rows_ || b.shared.rows > max_rows_)
    return invalid_argument("a submitted request has 1 .. " + std::to_string(max_rows_) + " rows, this one " +
                            std::to_string(b.item.rows) + " and " + std::to_string(b.shared.rows) +
                            " shared rows; split it, raise batch.max_rows or call dpi_batcher_predict");
  if (!fits_alone(b))
    return invalid_argument("the request has more ids than a chunk holds; raise max_nnz or split it");
  DPI_RETURN_IF_ERROR(check_on_time(r.control));
  Ticket* const ticket = shared_.tickets.take();
  if (ticket == nullptr) {
    count(shared_.full);
    return {Code::kQueueFull, "every ticket is in use: take completions, or raise batch.queue"};
  }
  ticket->user = user;
  ticket->out = r.out;
  ticket->logits = r.control.logits;
  ticket->version_out = r.control.version;
  ticket->submitted_ns = monotonic_ns();
  Result<Seat> seat = sit(r, ticket, number);
  if (!seat.ok() || seat->chunk == nullptr) {
    shared_.tickets.give_back(ticket);
    if (!seat.ok()) return std::move(seat).status();
    count(shared_.full);
    return {Code::kQueueFull, "every chunk is in use; retry, or raise batch.queue"};
  }
  if (seat->leads) shared_.leave_to_threads(this, index_of(*seat->chunk), false);
  leave(*seat->chunk);
  return {};
}

bool Lane::fits_alone(const Batch& b) const {
  return model_.engine().schema().sequences.empty() ||
         bags_fit(model_.engine().schema(), map_, b, nullptr, {});
}

/// For a request that has to wait.
Status Lane::check_on_time(const RunControl& control) {
  DPI_RETURN_IF_ERROR(check_control(control));
  if (control.deadline_ns == 0) return {};
  const uint64_t now = monotonic_ns(), expected = shared_.expected_ns(now);
  if (now + expected <= control.deadline_ns) return {};
  count(shared_.late);
  return {Code::kTimeout, "the deadline is in " + std::to_string((control.deadline_ns - now) / 1000) +
                              " us, a chunk takes " + std::to_string(expected / 1000) + " us"};
}

// ---- by itself

Status Lane::run_here(ContextPool::Lease& lease, const BatchRequest& r) {
  leave_gate(r);
  Status s;
  try {
    s = model_.run(lease, r.batch, r.out, r.control);
  } catch (const std::bad_alloc&) {
    s = out_of_memory();
  }
  if (!s.ok())
    lease.counters().add_error(s.code());
  else if (r.control.version != nullptr)
    *r.control.version = model_.version();
  return s;
}

Status Lane::run_alone(const BatchRequest& r) {
  DPI_ASSIGN_OR_RETURN(ContextPool::Lease lease, model_.claim(r.control));
  return run_here(lease, r);
}

// ---- into a chunk

Chunk* Lane::take_free() {
  uint64_t free = free_.load(std::memory_order_relaxed);
  while (free != 0) {
    if (free_.compare_exchange_weak(free, free & (free - 1), std::memory_order_seq_cst))
      return &chunks_[__builtin_ctzll(free)];
  }
  return nullptr;
}

void Lane::leave(Chunk& c, uint32_t holds) {
  const uint64_t bit = uint64_t{1} << index_of(c);
  if (c.holders.fetch_sub(holds, std::memory_order_acq_rel) == holds)
    free_.fetch_or(bit, std::memory_order_seq_cst);  // the lane may be gone now
}

/// Nobody joins `c` any more, whose word was `word`.
void Lane::close_to(Chunk& c, uint64_t word) { c.members.set(OpenWord::of(word).members); }

/// A chunk that nobody knows yet, for a first request. No chunk: none is free.
Status Lane::open_chunk(uint64_t word, uint64_t joins, Seat* seat, bool* taken) {
  const OpenWord before = OpenWord::of(word);
  OpenWord next = OpenWord::of(joins);
  next.number = before.next_number();
  const uint32_t waiting = (next.number - head_.get()) % OpenWord::kNumbers;
  if (waiting >= static_cast<uint32_t>(shared_.settings.queue)) {
    if (open_.load(std::memory_order_acquire) != word) return {};
    count(shared_.full);
    return {Code::kQueueFull, std::to_string(waiting) + " chunks wait; retry, or raise batch.queue"};
  }
  Chunk* const c = take_free();
  *taken = c == nullptr;
  if (c == nullptr) return {};
  c->holders.store(Chunk::kHeld, std::memory_order_relaxed);
  c->number.store(next.number, std::memory_order_relaxed);
  c->packed.reset(0);
  c->members.reset(Chunk::kOpen);
  c->ended.reset(0);
  c->left_to.store(0, std::memory_order_relaxed);
  c->begun_ns = monotonic_ns();
  c->rows.rows = {};
  c->rows.rows.has_map = next.has_map;
  std::fill(c->counters.begin(), c->counters.end(), FeatureCounters{});
  c->wants_logits = c->again = false;
  c->sampled = next.number * 0x9E3779B1u >> 28 == 0;  // one in sixteen, without a pattern
  c->timed = c->sampled || model_.slow() != nullptr;
  next.chunk = index_of(*c);
  if (!open_.compare_exchange_strong(word, next.word(), std::memory_order_seq_cst)) {
    free_.fetch_or(uint64_t{1} << index_of(*c), std::memory_order_seq_cst);
    return {};
  }
  by_number_[next.number % 64].store(next.chunk, std::memory_order_seq_cst);
  if (before.open()) close_to(chunks_[before.chunk], word);
  *seat = {c, 0, true};
  *taken = true;
  return {};
}

/// No chunk in the seat: none is free.
Status Lane::take_seat(const Batch& b, Seat* seat) {
  const auto rows = static_cast<uint32_t>(b.item.rows), shared = static_cast<uint32_t>(b.shared.rows);
  const auto most = static_cast<uint32_t>(max_rows_);
  for (;;) {
    uint64_t word = open_.load(std::memory_order_acquire);
    OpenWord o = OpenWord::of(word);
    if (o.open() && o.has_map == b.has_shared() && o.rows + rows <= most && o.shared + shared <= most) {
      *seat = {&chunks_[o.chunk], o.members, false};
      ++o.members;
      o.rows += rows;
      o.shared += shared;
      if (!open_.compare_exchange_weak(word, o.word(), std::memory_order_seq_cst)) continue;
      if (o.rows == most) leave_open(*seat->chunk);  // it waits for nobody
      return {};
    }
    OpenWord first;
    first.has_map = b.has_shared();
    first.members = 1;
    first.rows = rows;
    first.shared = shared;
    *seat = {};
    bool taken = false;
    DPI_RETURN_IF_ERROR(open_chunk(word, first.word(), seat, &taken));
    if (!taken) continue;
    if (rows == most && seat->chunk != nullptr) leave_open(*seat->chunk);
    return {};
  }
}

/// Behind all that lies in the chunk. kNone: its ids have no room there.
Result<Lane::Room> Lane::pack_here(Chunk& c, Member* m, const BatchRequest& r) {
  const ResolveSchema& schema = model_.engine().schema();
  const Batch& b = r.batch;
  const uint64_t began = c.timed ? monotonic_ns() : 0;
  if (!bags_fit(schema, map_, b, c.rows.block, c.rows.rows)) return Room::kNone;
  const ResolvedRows before = c.rows.rows;
  ResolvedRows rows = before;
  for (int64_t begin = 0; begin < b.item.rows;) {  // in one piece but where shared rows have no items
    DPI_ASSIGN_OR_RETURN(const RowRange range, next_range(schema, map_, b, begin, b.item.rows));
    DPI_RETURN_IF_ERROR(resolve_rows(schema, map_, b, range, c.rows.block, c.counters.data(), &rows, &rows));
    begin = range.end;
  }
  m->rows = {before.rows.item, rows.rows.item, before.rows.shared, rows.rows.shared};
  c.rows.rows = rows;
  c.wants_logits = c.wants_logits || r.control.logits != nullptr;
  if (!c.ids.empty()) model_.slow()->count_ids(b, ids_of(c, *m));
  if (c.timed) m->resolve_ns = monotonic_ns() - began;
  return Room::kPacked;
}

/// In turn, which it passes on whatever happens.
Result<Lane::Room> Lane::pack(const Seat& seat, const BatchRequest& r, Ticket* ticket, uint64_t* number) {
  Chunk& c = *seat.chunk;
  const uint64_t came = ticket != nullptr ? ticket->submitted_ns : monotonic_ns();
  const auto mine = [&](uint32_t turn) { return turn == seat.member; };
  if (!spin(kPackSpinNs, [&] { return mine(c.packed.get()); }))
    static_cast<void>(await(c.packed, {}, nullptr, mine));
  Member& m = c.requests[seat.member];
  m = Member();
  m.came_ns = came;
  Result<Room> packed = Room::kNone;
  try {
    packed = pack_here(c, &m, r);
  } catch (const std::bad_alloc&) {
    packed = out_of_memory();
  }
  if (ticket != nullptr && packed.ok() && *packed == Room::kPacked) {
    m.ticket = ticket;
    m.deadline_ns = r.control.deadline_ns;
    m.cancel = r.control.cancel;
    m.armed = shared_.tickets.arm(ticket, number);
    if (model_.tap() != nullptr && model_.tap()->draws(came)) m.record = model_.tap()->begin(r.batch);
  }
  c.packed.set(seat.member + 1);
  return packed;
}

/// A seat in a chunk that the request is packed into. No chunk: none is free.
Result<Lane::Seat> Lane::sit(const BatchRequest& r, Ticket* ticket, uint64_t* number) {
  Seat seat;
  DPI_RETURN_IF_ERROR(take_seat(r.batch, &seat));
  while (seat.chunk != nullptr) {
    leave_gate(r);
    Result<Room> packed = pack(seat, r, ticket, number);
    if (packed.ok() && *packed == Room::kPacked) return seat;
    Chunk& c = *seat.chunk;
    if (seat.leads) shared_.leave_to_threads(this, index_of(c), false);
    Seat next;
    Status found;
    if (packed.ok()) {
      leave_open(c);
      found = take_seat(r.batch, &next);
    } else {
      found = std::move(packed).status();
    }
    leave(c);  // last: until then the lane stays
    DPI_RETURN_IF_ERROR(found);
    if (next.chunk == nullptr) {
      count(shared_.full);
      return Status(Code::kQueueFull, "every chunk is in use; retry, or raise batch.queue");
    }
    seat = next;
  }
  return seat;
}

/// The next request begins another chunk than `c`.
void Lane::leave_open(Chunk& c) {
  uint64_t word = open_.load(std::memory_order_acquire);
  for (OpenWord o = OpenWord::of(word);
       o.chunk == index_of(c) && o.number == c.number.load(std::memory_order_relaxed);
       o = OpenWord::of(word)) {
    OpenWord none;
    none.number = o.number;
    if (open_.compare_exchange_weak(word, none.word(), std::memory_order_seq_cst)) {
      close_to(c, o.word());
      break;
    }
  }
}

// ---- out of a chunk

Status Lane::wait_for_scores(const Seat& seat, const BatchRequest& r) {
  Chunk& c = *seat.chunk;
  Status waited;
  if (seat.leads) {
    waited = lead(c, r.control, &shared_.abort);
    if (!waited.ok()) shared_.leave_to_threads(this, index_of(c), false);
  } else {
    waited = await(c.ended, r.control, &shared_.abort, [](uint32_t ended) { return ended != 0; });
  }
  if (waited.ok()) return collect(seat, r);
  waited = model_.refuse(std::move(waited));
  leave(c);
  return waited;
}

Status Lane::collect(const Seat& seat, const BatchRequest& r) {
  Chunk& c = *seat.chunk;
  if (c.again) {
    count(shared_.again);
    Result<ContextPool::Lease> lease = model_.claim(r.control);
    if (lease.ok()) lease->came_at(c.requests[seat.member].came_ns);
    leave(c);
    return lease.ok() ? run_here(*lease, r) : std::move(lease).status();
  }
  const Member& m = c.requests[seat.member];
  Status status;
  try {
    status = m.status;
  } catch (const std::bad_alloc&) {
    status = Status(m.status.code(), "");
  }
  if (status.ok()) {
    give_scores(c, m, r.out, r.control.logits, r.control.version);
    record(c, m, r);
  }
  leave(c);
  return status;
}

/// A request whose caller waited, so its batch is still there.
void Lane::record(const Chunk& c, const Member& m, const BatchRequest& r) const {
  const RecordTap* const tap = model_.tap();
  if (tap == nullptr || !tap->draws(m.came_ns)) return;
  tap->record(r.batch, r.out, c.run_began_ns - std::min(c.run_began_ns, m.came_ns) + c.run_ns);
}

void Lane::give_scores(const Chunk& c, const Member& m, float* out, float* logits, uint64_t* version) const {
  const int64_t heads = model_.engine().heads();
  const int64_t first = m.rows.begin * heads, n = m.rows.rows() * heads;
  std::copy_n(c.out.data() + first, n, out);
  if (logits != nullptr) std::copy_n(c.logits.data() + first, n, logits);
  if (version != nullptr) *version = model_.version();
}

}  // namespace dpi
