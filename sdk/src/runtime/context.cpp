#include "runtime/context.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/clock.hpp"

namespace dpi {

namespace {

constexpr size_t kAtLeast = 64;  // allocations of nothing still give an address

template <class T>
Status allocate_memory(const Engine& e, size_t bytes, int32_t kind, T** out, const char* what) {
  void* p = nullptr;
  dpi_backend_error err{};
  const int32_t code = e.api().alloc(e.device(), std::max(bytes, kAtLeast), kind, &p, &err);
  *out = static_cast<T*>(p);
  return backend_status(code, err, what);
}

Status check_control(const RunControl& control) {
  if (control.cancel != nullptr && __atomic_load_n(control.cancel, __ATOMIC_ACQUIRE) != 0) {
    return {Code::kCancelled, "cancelled by the caller"};
  }
  if (control.deadline_ns != 0 && monotonic_ns() >= control.deadline_ns) {
    return {Code::kTimeout, "the deadline passed"};
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Context>> Context::create(const Engine& engine, int64_t max_rows, int64_t max_nnz) {
  std::unique_ptr<Context> c(new Context(engine));
  DPI_RETURN_IF_ERROR(c->allocate(max_rows, max_nnz));
  DPI_RETURN_IF_ERROR(c->create_streams());
  c->counters_.resize(engine.schema().features.size());
  c->bind_operands();
  return c;
}

Status Context::allocate(int64_t max_rows, int64_t max_nnz) {
  DPI_ASSIGN_OR_RETURN(layout_, make_input_layout(engine_.schema(), max_rows, max_nnz));
  DPI_ASSIGN_OR_RETURN(memory_, plan_memory(engine_.plan(), max_rows, max_rows, engine_.caps().alignment));
  const auto scores = static_cast<size_t>(max_rows * engine_.heads()) * sizeof(float);
  const auto input = static_cast<size_t>(layout_.bytes);
  DPI_RETURN_IF_ERROR(allocate_memory(engine_, input, DPI_MEMORY_STAGING, &staging_, "input staging"));
  DPI_RETURN_IF_ERROR(
      allocate_memory(engine_, static_cast<size_t>(memory_.arena_bytes), DPI_MEMORY_ARENA, &arena_, "arena"));
  if (engine_.host_memory()) {
    input_ = staging_;
    return allocate_memory(engine_, scores, DPI_MEMORY_ARENA, &spare_logits_, "logits");
  }
  DPI_RETURN_IF_ERROR(allocate_memory(engine_, input, DPI_MEMORY_INPUT, &input_, "input"));
  DPI_RETURN_IF_ERROR(allocate_memory(engine_, 2 * scores, DPI_MEMORY_OUTPUT, &device_out_, "scores"));
  return allocate_memory(engine_, 2 * scores, DPI_MEMORY_STAGING, &host_out_, "score staging");
}

Status Context::create_streams() {
  const Plan& plan = engine_.plan();
  std::vector<size_t> scratch_bytes(static_cast<size_t>(plan.n_streams), 0);
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    auto& bytes = scratch_bytes[plan.ops[i].stream];
    bytes = std::max(bytes, engine_.api().op_scratch_bytes(engine_.op(i), layout_.max_rows));
  }
  dpi_backend_error err{};
  for (int32_t s = 0; s < plan.n_streams; ++s) {
    streams_.push_back(nullptr);
    scratch_.push_back(nullptr);
    DPI_RETURN_IF_ERROR(backend_status(
        engine_.api().stream_create(engine_.device(), 0, &streams_.back(), &err), err, "stream"));
    DPI_RETURN_IF_ERROR(
        allocate_memory(engine_, scratch_bytes[s], DPI_MEMORY_ARENA, &scratch_.back(), "scratch"));
  }
  for (int32_t i = 0; i < plan.n_events; ++i) {
    events_.push_back(nullptr);
    DPI_RETURN_IF_ERROR(
        backend_status(engine_.api().event_create(engine_.device(), &events_.back(), &err), err, "event"));
  }
  return {};
}

Context::~Context() {
  const auto& api = engine_.api();
  dpi_backend_device* dev = engine_.device();
  const auto release = [&](void* p, int32_t kind) {
    if (p != nullptr) api.free(dev, p, kind);
  };
  for (auto* s : streams_) {
    if (s != nullptr) api.stream_destroy(dev, s);
  }
  for (auto* e : events_) {
    if (e != nullptr) api.event_destroy(dev, e);
  }
  for (auto* s : scratch_) release(s, DPI_MEMORY_ARENA);
  if (input_ != staging_) release(input_, DPI_MEMORY_INPUT);
  release(staging_, DPI_MEMORY_STAGING);
  release(arena_, DPI_MEMORY_ARENA);
  release(spare_logits_, DPI_MEMORY_ARENA);
  release(device_out_, DPI_MEMORY_OUTPUT);
  release(host_out_, DPI_MEMORY_STAGING);
}

void Context::bind_operands() {
  const Plan& plan = engine_.plan();
  bound_.resize(plan.ops.size());
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    const PlanOp& op = plan.ops[i];
    BoundOp& b = bound_[i];
    b.inputs.resize(op.inputs.size());
    b.outputs.resize(op.outputs.size());
    b.tables.resize(op.tables.size());
    for (const int32_t v : op.outputs) {
      if (v >= 0) b.space = static_cast<int32_t>(plan.values[v].space);
    }
    const auto add_lookup = [&](int32_t table, int32_t input) {
      lookups_.push_back({op.tables[table], {}});
      lookup_sources_.emplace_back(static_cast<int32_t>(i), input);
    };
    if (op.kind == OpKind::kEmbed) add_lookup(0, 0);
    for (const auto& f : op.lookup.fields) add_lookup(f.table, f.input);
    for (const auto& f : op.lookup.scalars) add_lookup(f.table, f.input);
  }
}

kernels::Tensor Context::value_tensor(int32_t index, const ResolvedRows& rows, float* out,
                                      float* logits) const {
  const PlanValue& v = engine_.plan().values[index];
  kernels::Tensor t;
  t.dims = v.dims;
  t.row_stride = engine_.row_stride(v);
  t.dtype = v.dtype;
  t.rows = v.space == RowSpace::kConstant ? 1 : rows.rows[v.space == RowSpace::kShared ? 1 : 0];
  switch (v.storage) {
    case Storage::kArena:
      t.data = reinterpret_cast<float*>(arena_ + memory_.offset[index]);
      break;
    case Storage::kAlias:
      t.data = reinterpret_cast<float*>(
          reinterpret_cast<std::byte*>(value_tensor(v.base, rows, out, logits).data) +
          v.column * kernels::dtype_bytes(v.dtype));
      break;
    case Storage::kConst:
      t.data = engine_.const_data(v.param);
      break;
    case Storage::kOutput:
      t.data = out + v.column;
      break;
    case Storage::kLogit:
      t.data = logits + v.column;
      break;
    case Storage::kInput:
      break;  // from the packed block
  }
  return t;
}

void Context::bind_call(const ResolvedRows& rows, float* out, float* logits) {
  const Plan& plan = engine_.plan();
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    const PlanOp& op = plan.ops[i];
    for (size_t k = 0; k < op.inputs.size(); ++k) {
      const int32_t v = op.inputs[k];
      if (v < 0) continue;
      if (plan.values[v].storage == Storage::kInput) {
        bound_[i].inputs[k] = input_operand(engine_.schema(), layout_, plan.values[v].feature, rows, input_);
      } else {
        bound_[i].inputs[k].tensor = value_tensor(v, rows, out, logits);
      }
    }
    for (size_t k = 0; k < op.outputs.size(); ++k) {
      if (op.outputs[k] >= 0) bound_[i].outputs[k] = value_tensor(op.outputs[k], rows, out, logits);
    }
  }
}

Status Context::prepare_tables(uint64_t deadline_ns) {
  if (lookups_.empty()) return {};
  for (size_t i = 0; i < lookups_.size(); ++i) {
    const auto [op, input] = lookup_sources_[i];
    lookups_[i].ids = bound_[op].inputs[input].bags;
  }
  auto ready = engine_.store().prepare({lookups_, deadline_ns});
  if (!ready.ok()) return std::move(ready).status();
  if (ready.value() == Readiness::kLate)
    return {Code::kTimeout, "embedding rows did not arrive before the deadline"};
  const uint64_t version = engine_.store().version();
  if (views_bound_ && version == seen_version_) return {};
  for (size_t i = 0; i < bound_.size(); ++i) {
    const auto& tables = engine_.plan().ops[i].tables;
    for (size_t t = 0; t < tables.size(); ++t) bound_[i].tables[t] = engine_.store().view(tables[t]);
  }
  seen_version_ = version;
  views_bound_ = true;
  return {};
}

Status Context::launch_op(size_t i, const ResolvedRows& rows) {
  const PlanOp& op = engine_.plan().ops[i];
  BoundOp& b = bound_[i];
  dpi_backend_stream* stream = streams_[op.stream];
  dpi_backend_error err{};
  for (const int32_t e : op.waits) {
    DPI_RETURN_IF_ERROR(backend_status(engine_.api().event_wait(events_[e], stream, &err), err, op.name));
  }
  dpi_op_call call{};
  const bool constant = b.space == static_cast<int32_t>(RowSpace::kConstant);
  call.rows = constant ? 1 : rows.rows[b.space == static_cast<int32_t>(RowSpace::kShared) ? 1 : 0];
  call.inputs = b.inputs.data();
  call.outputs = b.outputs.data();
  call.tables = b.tables.data();
  call.row_map = rows.has_map ? reinterpret_cast<const int32_t*>(input_ + layout_.row_map) : nullptr;
  call.scratch = scratch_[op.stream];
  DPI_RETURN_IF_ERROR(
      backend_status(engine_.api().enqueue(stream, engine_.op(i), &call, &err), err, op.name));
  if (op.records >= 0) {
    DPI_RETURN_IF_ERROR(
        backend_status(engine_.api().event_record(events_[op.records], stream, &err), err, op.name));
  }
  return {};
}

Status Context::launch(const ResolvedRows& rows) {
  const Plan& plan = engine_.plan();
  dpi_backend_error err{};
  if (plan.start_event >= 0) {
    DPI_RETURN_IF_ERROR(backend_status(
        engine_.api().event_record(events_[plan.start_event], streams_[0], &err), err, "start"));
  }
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    const uint64_t start = profile_ ? monotonic_ns() : 0;
    DPI_RETURN_IF_ERROR(launch_op(i, rows));
    if (profile_) profile_ns_[i] += monotonic_ns() - start;
  }
  for (const int32_t e : plan.end_waits) {
    DPI_RETURN_IF_ERROR(backend_status(engine_.api().event_wait(events_[e], streams_[0], &err), err, "end"));
  }
  return {};
}

void Context::enable_profile(bool on) {
  profile_ = on;
  profile_ns_.assign(engine_.plan().ops.size(), 0);
}

// Only what the call's rows use travels; a small block goes whole, in one copy.
Status Context::copy_input(const ResolvedRows& rows) {
  constexpr int64_t kWholeBytes = 32 << 10;
  constexpr int64_t kWord = 4;  // ids, offsets and floats
  const ResolveSchema& schema = engine_.schema();
  const auto copy = [&](int64_t offset, int64_t bytes) -> Status {
    if (bytes == 0) return {};
    dpi_backend_error err{};
    const int32_t code = engine_.api().copy_in(streams_[0], input_ + offset, staging_ + offset,
                                               static_cast<size_t>(bytes), &err);
    return backend_status(code, err, "copy in");
  };
  if (layout_.bytes <= kWholeBytes) return copy(0, layout_.bytes);
  if (rows.has_map) DPI_RETURN_IF_ERROR(copy(layout_.row_map, rows.rows[0] * kWord));
  for (int space = 0; space < 2; ++space) {
    DPI_RETURN_IF_ERROR(copy(layout_.dense[space], rows.rows[space] * schema.n_floats[space] * kWord));
    DPI_RETURN_IF_ERROR(copy(layout_.ids[space], rows.rows[space] * schema.n_ids[space] * kWord));
  }
  for (size_t i = 0; i < layout_.sequences.size(); ++i) {
    const auto& q = layout_.sequences[i];
    const auto& f = schema.features[static_cast<size_t>(schema.sequences[i])];
    const int64_t n = rows.rows[f.shared ? 1 : 0];
    const int64_t nnz = reinterpret_cast<const int32_t*>(staging_ + q.offsets)[n];
    DPI_RETURN_IF_ERROR(copy(q.offsets, (n + 1) * kWord));
    DPI_RETURN_IF_ERROR(copy(q.ids, nnz * kWord));
    DPI_RETURN_IF_ERROR(copy(q.weights, f.spec.weighted ? nnz * kWord : 0));
  }
  return {};
}

/// Copies in, launches and copies out; returns while the device may still be at work.
Status Context::execute(const ResolvedRows& rows, size_t scores, bool with_logits) {
  const bool host = engine_.host_memory();
  const size_t capacity = static_cast<size_t>(layout_.max_rows * engine_.heads());
  if (!host) DPI_RETURN_IF_ERROR(copy_input(rows));
  DPI_RETURN_IF_ERROR(launch(rows));
  if (host) return {};
  dpi_backend_error err{};
  const size_t bytes = (with_logits ? capacity + scores : scores) * sizeof(float);
  return backend_status(engine_.api().copy_out(streams_[0], host_out_, device_out_, bytes, &err), err,
                        "copy out");
}

Status Context::synchronize() {
  Status first;
  for (auto* s : streams_) {
    dpi_backend_error err{};
    Status done = backend_status(engine_.api().stream_synchronize(s, &err), err, "synchronize");
    if (first.ok()) first = std::move(done);
  }
  return first;
}

Status Context::run_range(const Batch& batch, const RowRange& range, float* out, float* logits,
                          const RunControl& control) {
  ResolvedRows rows;
  DPI_RETURN_IF_ERROR(
      resolve_rows(engine_.schema(), layout_, batch, range, staging_, counters_.data(), &rows));
  const bool host = engine_.host_memory();
  const auto n = static_cast<size_t>(rows.rows[0] * engine_.heads());
  const size_t capacity = static_cast<size_t>(layout_.max_rows * engine_.heads());
  float* const logit_sink = logits != nullptr ? logits : spare_logits_;
  bind_call(rows, host ? out : device_out_, host ? logit_sink : device_out_ + capacity);
  DPI_RETURN_IF_ERROR(prepare_tables(control.deadline_ns));
  Status ran = execute(rows, n, logits != nullptr);
  Status done =
      synchronize();  // also after a failure: the device may still read what the next call will write
  if (!ran.ok()) return ran;
  DPI_RETURN_IF_ERROR(std::move(done));
  if (!host) {
    std::memcpy(out, host_out_, n * sizeof(float));
    if (logits != nullptr) std::memcpy(logits, host_out_ + capacity, n * sizeof(float));
  }
  return {};
}

Status Context::run(const Batch& batch, float* out, const RunControl& control) {
  std::fill(counters_.begin(), counters_.end(), FeatureCounters{});
  const int64_t heads = engine_.heads();
  if (control.logits != nullptr) {
    std::fill_n(control.logits, batch.item.rows * heads, std::numeric_limits<float>::quiet_NaN());
  }
  for (int64_t begin = 0; begin < batch.item.rows;) {
    DPI_RETURN_IF_ERROR(check_control(control));
    DPI_ASSIGN_OR_RETURN(const RowRange range, next_range(engine_.schema(), layout_, batch, begin));
    float* logits = control.logits != nullptr ? control.logits + begin * heads : nullptr;
    DPI_RETURN_IF_ERROR(run_range(batch, range, out + begin * heads, logits, control));
    begin = range.end;
  }
  return {};
}

}  // namespace dpi
