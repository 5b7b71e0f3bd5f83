#include "profile.hpp"

#include <algorithm>
#include <numeric>

#include "base/clock.hpp"
#include "bundle/bundle.hpp"
#include "ops/table.hpp"
#include "runtime/execute/context.hpp"
#include "runtime/model/engine.hpp"

namespace dpi::tool {

namespace {

Batch engine_batch(const SyntheticRows& rows) {
  const dpi_batch b = rows.batch();
  Batch batch;
  batch.item.rows = b.rows;
  batch.item.dense = b.dense;
  batch.item.ids = b.ids;
  batch.item.offsets = b.offsets;
  batch.item.nnz = b.nnz;
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

/// Seconds of calls, adding up nanoseconds per op.
int64_t run_calls(Context& context, const Batch& batch, int64_t heads, double seconds,
                  std::vector<double>* ns) {
  std::vector<float> out(static_cast<size_t>(batch.item.rows * heads));
  check(context.run(batch, out.data(), {}), false);
  context.enable_profile(true);
  int64_t calls = 0;
  const uint64_t begin = monotonic_ns();
  while (calls == 0 || static_cast<double>(monotonic_ns() - begin) < seconds * 1e9) {
    check(context.run(batch, out.data(), {}), false);
    ++calls;
    for (size_t i = 0; i < context.timeline().size(); ++i) {
      (*ns)[i] += 1e3 * (context.timeline()[i].end_us - context.timeline()[i].start_us);
    }
  }
  if (context.timeline().empty()) ns->assign(context.profile().begin(), context.profile().end());
  return calls;
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
                                   const SyntheticRows& rows, double seconds) {
  ModelOptions options;
  for (const auto& [key, value] : flags.pairs()) check(set_option(&options, key, value), true);
  auto bundle = take(Bundle::open(path, {options.require_signature}));
  const auto engine = profiled_engine(*bundle, options);
  const auto context = take(Context::create(*engine, std::min(options.max_rows, rows.rows), options.max_nnz));
  std::vector<double> ns(engine->plan().ops.size(), 0.0);
  const int64_t calls = run_calls(*context, engine_batch(rows), engine->heads(), seconds, &ns);
  const double sum = std::max(1.0, std::accumulate(ns.begin(), ns.end(), 0.0));
  std::vector<size_t> order(ns.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return ns[a] > ns[b]; });
  Json result;
  result["timeline"] = timeline_json(*engine, context->timeline());
  result["ops"] = Json::array();
  for (const size_t i : order) {
    const PlanOp& op = engine->plan().ops[i];
    result["ops"].push_back({{"op", op.name},
                             {"kind", op_name(op.kind)},
                             {"us_per_call", ns[i] * 1e-3 / static_cast<double>(calls)},
                             {"share", ns[i] / sum},
                             {"implementation", engine->op_report(i)}});
  }
  return result;
}

}  // namespace dpi::tool
