#include "runtime/execute/context.hpp"

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

#include "runtime/engine/host_flights.hpp"

namespace dpi {

namespace {

/// NaN for heads without a logit.
void mark_absent_logits(const Plan& plan, int64_t rows, float* logits) {
  const auto heads = static_cast<int64_t>(plan.heads.size());
  for (int64_t h = 0; h < heads; ++h) {
    if (plan.heads[static_cast<size_t>(h)].logit >= 0) continue;
    for (int64_t r = 0; r < rows; ++r) logits[r * heads + h] = std::numeric_limits<float>::quiet_NaN();
  }
}

Result<FlightSizes> sizes_of(const Engine& engine, int64_t max_rows, int64_t max_nnz) {
  return FlightSizes::make(engine.plan(), engine.schema(), engine.options(),
                           {max_rows, max_nnz, engine.caps().alignment, !engine.host_memory()});
}

}  // namespace

Result<std::unique_ptr<Context>> Context::create(const Engine& engine, int64_t max_rows, int64_t max_nnz) {
  std::unique_ptr<Context> c(new Context(engine));
  const bool host = engine.host_memory();
  const HostFlights threads = host_flights(engine.plan(), engine.options(), max_rows);
  DPI_ASSIGN_OR_RETURN(c->sizes_, sizes_of(engine, max_rows, max_nnz));
  c->flights_.reserve(static_cast<size_t>(host ? threads.count : engine.options().in_flight));
  for (int32_t i = 0; i < (host ? threads.count : 1); ++i) {
    DPI_ASSIGN_OR_RETURN(std::unique_ptr<Flight> flight, Flight::create(engine, c->sizes_));
    c->flights_.push_back(std::move(flight));
  }
  if (host) c->shares_ = std::make_unique<CallShares>(engine, c->sizes_, threads, c->flights_);
  c->counters_.resize(engine.schema().features.size());
  return c;
}

void Context::enable_profile(bool on) {
  profile_ns_.assign(on ? engine_.plan().ops.size() : 0, 0);
  flights_[0]->set_profile(on ? &profile_ns_ : nullptr);
}

/// Flights that a call uses. The others are made when a call first needs them; without memory
/// for them calls run with those there are.
size_t Context::flights_for(const Batch& batch) {
  const int64_t most = batch.has_shared() ? sizes_.forms.rows() : sizes_.forms.users();
  const int64_t chunks = (batch.item.rows + most - 1) / most;
  const size_t wanted = std::min(static_cast<size_t>(std::max<int64_t>(chunks, 1)), flights_.capacity());
  try {
    while (flights_.size() < wanted) {
      auto made = Flight::create(engine_, sizes_);
      if (!made.ok()) break;
      flights_.push_back(std::move(made).value());
    }
  } catch (const std::bad_alloc&) {
    return flights_.size();
  }
  return std::min(wanted, flights_.size());
}

void Context::drop_all() {
  for (auto& flight : flights_) {
    if (flight->busy()) flight->drop();
  }
}

bool Context::any_busy() const {
  return std::any_of(flights_.begin(), flights_.end(), [](const auto& f) { return f->busy(); });
}

Status Context::finish_all() {
  for (auto& flight : flights_) DPI_RETURN_IF_ERROR(flight->finish());
  return {};
}

Status Context::run_chunks(const Batch& batch, float* out, const RunControl& control) {
  const int64_t heads = engine_.heads();
  const size_t flights = flights_for(batch);
  size_t next = 0;
  for (int64_t begin = 0; begin < batch.item.rows;) {
    Flight& flight = *flights_[next % flights];
    DPI_RETURN_IF_ERROR(flight.finish());
    DPI_RETURN_IF_ERROR(check_control(control));
    DPI_ASSIGN_OR_RETURN(const RowRange range,
                         sizes_.next_chunk(engine_.schema(), batch, begin, batch.item.rows));
    FlightCall call;
    call.out = out + begin * heads;
    call.logits = control.logits != nullptr ? control.logits + begin * heads : nullptr;
    call.deadline_ns = control.deadline_ns;
    call.cancel = control.cancel;
    call.row_wait = control.row_wait;
    call.stages = control.stages;
    call.counters = counters_.data();
    if (any_busy())
      call.others = {[](void* self) { return static_cast<Context*>(self)->finish_all(); }, this};
    DPI_RETURN_IF_ERROR(flight.begin(batch, range, call));
    begin = range.end;
    ++next;
  }
  for (size_t i = 0; i < flights; ++i, ++next) DPI_RETURN_IF_ERROR(flights_[next % flights]->finish());
  return {};
}

UserCounts Context::take_user_counts() {
  UserCounts all;
  for (const auto& flight : flights_) {
    const UserCounts n = flight->user_counts();
    all.hits += n.hits;
    all.misses += n.misses;
    all.repeats += n.repeats;
    all.drops += n.drops;
  }
  const UserCounts before = std::exchange(users_taken_, all);
  return {all.hits - before.hits, all.misses - before.misses, all.repeats - before.repeats,
          all.drops - before.drops};
}

uint64_t Context::tier_misses() const {
  uint64_t n = 0;
  for (const auto& flight : flights_) n += flight->tier_misses();
  return n;
}

Status Context::run(const Batch& batch, float* out, const RunControl& control, const WorkRows* as) {
  std::fill(counters_.begin(), counters_.end(), FeatureCounters{});
  Status status;
  try {
    const int32_t most = profile_ns_.empty() ? static_cast<int32_t>(flights_.size()) : 1;
    status = shares_ != nullptr ? shares_->run(batch, out, control, most, &counters_, as)
                                : run_chunks(batch, out, control);
  } catch (...) {
    drop_all();  // what is under way would write into memory that the caller has again
    throw;
  }
  if (!status.ok()) {
    drop_all();
  } else if (control.logits != nullptr) {
    mark_absent_logits(engine_.plan(), batch.item.rows, control.logits);
  }
  return status;
}

int64_t Context::packed_rows(const Engine& engine, int64_t max_rows) {
  const auto sizes = sizes_of(engine, max_rows, engine.options().max_nnz);
  if (!sizes.ok()) return 1;  // whoever allocates says why
  const int64_t users = sizes.value().forms.users();
  return engine.host_memory() ? std::min(users, host_flights(engine.plan(), engine.options(), max_rows).rows)
                              : users;
}

Status Context::run_packed(const PackedRows& packed, const RowRange& range, float* out,
                           const RunControl& control) {
  FlightCall call;
  call.out = out;
  call.logits = control.logits;
  call.deadline_ns = control.deadline_ns;
  call.cancel = control.cancel;
  call.row_wait = control.row_wait;
  call.stages = control.stages;
  Flight& flight = *flights_[0];
  Status status;
  try {
    status = flight.begin_packed(packed, range, call);
    if (status.ok()) status = flight.finish();
  } catch (...) {
    drop_all();
    throw;
  }
  if (!status.ok()) {
    drop_all();
  } else if (control.logits != nullptr) {
    mark_absent_logits(engine_.plan(), range.rows(), control.logits);
  }
  return status;
}

}  // namespace dpi
