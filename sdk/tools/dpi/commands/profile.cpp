#include "sdk/tools/dpi/commands/profile.hpp"

#include <algorithm>
#include <numeric>

#include "base/clock.hpp"
#include "bundle/bundle.hpp"
#include "ops/table.hpp"
#include "runtime/engine/engine.hpp"
#include "runtime/execute/context.hpp"
#include "sdk/tools/dpi/shared/metrics.hpp"

namespace dpi::tool {

namespace {

Batch engine_batch(const SyntheticRows& rows) {
  const dpi_batch b = rows.batch();
  Batch batch;
  batch.item = {b.rows, b.dense, 0, b.ids, b.offsets, nullptr, b.nnz};
  if (b.shared_offsets != nullptr) {
    batch.shared = {b.shared_rows,        b.shared_dense, 0,           b.shared_ids,
                    b.shared_bag_offsets, nullptr,        b.shared_nnz};
    batch.shared_offsets = b.shared_offsets;
  }
  return batch;
}

using Json = nlohmann::ordered_json;

/// Where the device has a clock of its own, each op gets timestamps; elsewhere enqueue executes and is timed.
std::unique_ptr<Engine> profiled_engine(Bundle& bundle, ModelOptions options) {
  auto engine = take(Engine::create(bundle, options));
  if (engine->host_memory()) return engine;
  options.timestamps = true;
  engine.reset();  // tables need not fit twice
  return take(Engine::create(bundle, options));
}

/// Microseconds, one entry per call.
struct Samples {
  std::vector<std::vector<double>> ops;  // of each op of the plan
  std::vector<double> busy;              // some op was running
  std::vector<double> call;              // Context::run
};

/// Length of the union of the ops' intervals.
double busy_us(std::vector<OpTime> ops) {
  std::sort(ops.begin(), ops.end(), [](const OpTime& a, const OpTime& b) { return a.start_us < b.start_us; });
  double sum = 0, end = 0;
  for (const OpTime& op : ops) {
    const double from = std::max<double>(op.start_us, end);
    if (op.end_us > from) sum += op.end_us - from;
    end = std::max<double>(end, op.end_us);
  }
  return sum;
}

/// The times of the call that has just ended; `before` is the context's profile as it was at the call before.
void add_sample(const Context& context, std::vector<uint64_t>* before, Samples* s) {
  const std::vector<OpTime>& timeline = context.timeline();
  double sum = 0;
  for (size_t i = 0; i < s->ops.size(); ++i) {
    const double us = timeline.empty() ? 1e-3 * static_cast<double>(context.profile()[i] - (*before)[i])
                                       : static_cast<double>(timeline[i].end_us - timeline[i].start_us);
    s->ops[i].push_back(us);
    sum += us;
  }
  s->busy.push_back(timeline.empty() ? sum : busy_us(timeline));
  *before = context.profile();
}

/// `seconds` of calls, at least one.
Samples run_calls(Context& context, const std::vector<SyntheticRows>& pool, size_t n_ops, int64_t heads,
                  double seconds) {
  constexpr size_t kMostCalls = 100'000;
  Samples s;
  s.ops.resize(n_ops);
  SyntheticRows rows = pool.front();
  std::vector<float> out(static_cast<size_t>(rows.rows() * heads));
  check(context.run(engine_batch(rows), out.data(), {}), false);
  context.enable_profile(true);
  std::vector<uint64_t> before(n_ops, 0);
  const uint64_t begin = monotonic_ns();
  while (s.call.empty() ||
         (static_cast<double>(monotonic_ns() - begin) < seconds * 1e9 && s.call.size() < kMostCalls)) {
    rows = pool[(s.call.size() + 1) % pool.size()];
    const Batch batch = engine_batch(rows);
    const uint64_t start = monotonic_ns();
    check(context.run(batch, out.data(), {}), false);
    s.call.push_back(1e-3 * static_cast<double>(monotonic_ns() - start));
    add_sample(context, &before, &s);
  }
  return s;
}

Json timeline_json(const Engine& engine, const std::vector<OpTime>& times) {
  if (times.empty()) return nullptr;
  const OverlapReport r = report_overlap(times);
  Json j = {{"total_us", r.total_us},
            {"all_streams_started_us", r.all_started_us},
            {"overlap_us", r.overlap_us},
            {"start_order", r.start_order}};
  j["ops"] = Json::array();
  for (size_t i = 0; i < times.size(); ++i) {
    j["ops"].push_back({{"op", engine.plan().ops[i].name},
                        {"stream", times[i].stream},
                        {"start_us", times[i].start_us},
                        {"end_us", times[i].end_us}});
  }
  return j;
}

}  // namespace

nlohmann::ordered_json profile_ops(const std::string& path, const CommonFlags& flags,
                                   const std::vector<SyntheticRows>& pool, double seconds) {
  ModelOptions options;
  for (const auto& [key, value] : flags.pairs()) check(set_option(&options, key, value), true);
  auto bundle = take(Bundle::open(path, {options.require_signature, false, {}}));
  const auto engine = profiled_engine(*bundle, options);
  const int64_t rows = pool.front().rows();
  const auto context = take(Context::create(*engine, std::min(options.max_rows, rows), options.max_nnz));
  Samples s = run_calls(*context, pool, engine->plan().ops.size(), engine->heads(), seconds);
  std::vector<double> us;
  for (std::vector<double>& op : s.ops) us.push_back(percentile(&op, 0.5));
  const double call = percentile(&s.call, 0.5);
  const double whole = std::max(1e-3, call);
  std::vector<size_t> order(us.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return us[a] > us[b]; });
  const SyntheticRows& first = pool.front();
  Json result = {{"rows", rows}, {"calls", s.call.size()}, {"us_per_call", call}};
  result["users"] = first.shared_offsets.empty() ? Json() : Json(first.shared.rows);
  result["explained"] = percentile(&s.busy, 0.5) / whole;
  result["timeline"] = timeline_json(*engine, context->timeline());
  result["ops"] = Json::array();
  for (const size_t i : order) {
    const PlanOp& op = engine->plan().ops[i];
    result["ops"].push_back({{"op", op.name},
                             {"kind", op_name(op.kind)},
                             {"us_per_call", us[i]},
                             {"share", us[i] / whole},
                             {"implementation", engine->op_report(i)}});
  }
  return result;
}

}  // namespace dpi::tool
