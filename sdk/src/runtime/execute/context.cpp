#include "runtime/execute/context.hpp"

#include <algorithm>
#include <limits>
#include <new>

#include "base/clock.hpp"

namespace dpi {

namespace {

Status check_control(const RunControl& control) {
  if (control.cancel != nullptr && __atomic_load_n(control.cancel, __ATOMIC_ACQUIRE) != 0) {
    return {Code::kCancelled, "cancelled by the caller"};
  }
  if (control.deadline_ns != 0 && monotonic_ns() >= control.deadline_ns) {
    return {Code::kTimeout, "the deadline passed"};
  }
  return {};
}

/// NaN for heads without a logit.
void mark_absent_logits(const Plan& plan, int64_t rows, float* logits) {
  const auto heads = static_cast<int64_t>(plan.heads.size());
  for (int64_t h = 0; h < heads; ++h) {
    if (plan.heads[static_cast<size_t>(h)].logit >= 0) continue;
    for (int64_t r = 0; r < rows; ++r) logits[r * heads + h] = std::numeric_limits<float>::quiet_NaN();
  }
}

}  // namespace

Result<std::unique_ptr<Context>> Context::create(const Engine& engine, int64_t max_rows, int64_t max_nnz) {
  std::unique_ptr<Context> c(new Context(engine));
  DPI_ASSIGN_OR_RETURN(c->sizes_, FlightSizes::make(engine, max_rows, max_nnz));
  const size_t most = engine.host_memory() ? 1 : static_cast<size_t>(engine.options().in_flight);
  c->flights_.reserve(most);
  DPI_ASSIGN_OR_RETURN(std::unique_ptr<Flight> first, Flight::create(engine, c->sizes_));
  c->flights_.push_back(std::move(first));
  c->counters_.resize(engine.schema().features.size());
  return c;
}

void Context::enable_profile(bool on) {
  profile_ns_.assign(engine_.plan().ops.size(), 0);
  flights_[0]->set_profile(on ? &profile_ns_ : nullptr);
}

/// Flights that a call of `rows` rows uses. The others are made when a call first needs them; without memory
/// for them calls run with those there are.
size_t Context::flights_for(int64_t rows) {
  const int64_t chunks = (rows + sizes_.max_rows - 1) / sizes_.max_rows;
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

Status Context::run_chunks(const Batch& batch, float* out, const RunControl& control) {
  const int64_t heads = engine_.heads();
  const size_t flights = flights_for(batch.item.rows);
  size_t next = 0;
  for (int64_t begin = 0; begin < batch.item.rows;) {
    Flight& flight = *flights_[next % flights];
    DPI_RETURN_IF_ERROR(flight.finish());
    DPI_RETURN_IF_ERROR(check_control(control));
    DPI_ASSIGN_OR_RETURN(const RowRange range, next_range(engine_.schema(), sizes_.largest(), batch, begin));
    FlightCall call;
    call.out = out + begin * heads;
    call.logits = control.logits != nullptr ? control.logits + begin * heads : nullptr;
    call.deadline_ns = control.deadline_ns;
    call.counters = counters_.data();
    DPI_RETURN_IF_ERROR(flight.begin(batch, range, call));
    begin = range.end;
    ++next;
  }
  for (size_t i = 0; i < flights; ++i, ++next) DPI_RETURN_IF_ERROR(flights_[next % flights]->finish());
  return {};
}

Status Context::run(const Batch& batch, float* out, const RunControl& control) {
  std::fill(counters_.begin(), counters_.end(), FeatureCounters{});
  Status status;
  try {
    status = run_chunks(batch, out, control);
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

}  // namespace dpi
