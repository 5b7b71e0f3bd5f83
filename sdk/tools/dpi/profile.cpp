#include "profile.hpp"

#include <algorithm>
#include <numeric>

#include "base/clock.hpp"
#include "bundle/bundle.hpp"
#include "runtime/context.hpp"
#include "runtime/engine.hpp"

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

}  // namespace

nlohmann::ordered_json profile_ops(const std::string& path, const CommonFlags& flags,
                                   const SyntheticRows& rows, double seconds) {
  ModelOptions options;
  for (const auto& [key, value] : flags.pairs()) check(set_option(&options, key, value), true);
  auto bundle = take(Bundle::open(path, {options.require_signature}));
  const auto engine = take(Engine::create(*bundle, options));
  const auto context = take(Context::create(*engine, std::min(options.max_rows, rows.rows), options.max_nnz));
  std::vector<float> out(static_cast<size_t>(rows.rows * engine->heads()));
  const Batch batch = engine_batch(rows);
  check(context->run(batch, out.data(), {}), false);
  context->enable_profile(true);
  int64_t calls = 0;
  const uint64_t begin = monotonic_ns();
  while (calls == 0 || static_cast<double>(monotonic_ns() - begin) < seconds * 1e9) {
    check(context->run(batch, out.data(), {}), false);
    ++calls;
  }
  const std::vector<uint64_t>& ns = context->profile();
  const double sum = std::max(1.0, static_cast<double>(std::accumulate(ns.begin(), ns.end(), uint64_t{0})));
  std::vector<size_t> order(std::min(ns.size(), engine->plan().ops.size()));
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return ns[a] > ns[b]; });
  auto list = nlohmann::ordered_json::array();
  for (const size_t i : order) {
    const PlanOp& op = engine->plan().ops[i];
    list.push_back({{"op", op.name},
                    {"kind", kernels::op_name(op.kind)},
                    {"us_per_call", static_cast<double>(ns[i]) * 1e-3 / static_cast<double>(calls)},
                    {"share", static_cast<double>(ns[i]) / sum},
                    {"implementation", engine->op_report(i)}});
  }
  return list;
}

}  // namespace dpi::tool
