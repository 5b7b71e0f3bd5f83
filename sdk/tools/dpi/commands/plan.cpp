// `dpi plan`: how a bundle will be run.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "ops/table.hpp"
#include "runtime/engine/engine.hpp"
#include "runtime/load/tiers.hpp"
#include "sdk/tools/dpi/commands/command.hpp"
#include "sdk/tools/dpi/shared/loaded_model.hpp"
#include "sdk/tools/dpi/shared/planned.hpp"
#include "sdk/tools/dpi/shared/terminal.hpp"

namespace dpi::tool {

namespace {

using Json = nlohmann::ordered_json;

Json dims_json(const PlanValue& v) {
  if (v.is_bags) return "ids";
  Json j = Json::array();
  for (int i = 0; i < v.dims.rank; ++i) j.push_back(v.dims.d[i]);
  return j;
}

Json names_json(const Plan& plan, const std::vector<int32_t>& values) {
  Json j = Json::array();
  for (const int32_t v : values) j.push_back(v < 0 ? Json() : Json(plan.values[v].name));
  return j;
}

Json plan_json(const Plan& plan, const MemoryPlan& memory, int64_t max_rows) {
  constexpr const char* kStorages[] = {"arena", "input", "const", "alias", "output", "logit"};
  Json j;
  j["name"] = plan.name;
  j["streams"] = plan.n_streams;
  j["events"] = plan.n_events;
  j["arena"] = {{"bytes", memory.arena_bytes}, {"rows", max_rows}};
  j["ops"] = Json::array();
  for (const PlanOp& op : plan.ops) {
    Json o = {{"name", op.name}, {"kind", op_name(op.kind)}, {"module", op.module}};
    o["inputs"] = names_json(plan, op.inputs);
    o["outputs"] = names_json(plan, op.outputs);
    o["branch"] = op.branch;
    o["level"] = op.level;
    o["stream"] = op.stream;
    o["waits"] = op.waits;
    o["records"] = op.records < 0 ? Json() : Json(op.records);
    j["ops"].push_back(std::move(o));
  }
  j["values"] = Json::array();
  for (size_t v = 0; v < plan.values.size(); ++v) {
    const PlanValue& value = plan.values[v];
    Json o = {{"name", value.name}, {"dims", dims_json(value)}};
    o["space"] = name_of(value.space);
    o["storage"] = kStorages[static_cast<int>(value.storage)];
    o["row_stride"] = value.row_stride;
    if (value.storage == Storage::kArena) o["offset"] = memory.offset[v];
    j["values"].push_back(std::move(o));
  }
  j["tables"] = Json::array();
  for (const PlanTable& t : plan.tables) {
    j["tables"].push_back({{"name", t.name}, {"rows", t.rows}, {"dim", t.dim}, {"derived", t.source < 0}});
  }
  j["notes"] = plan.notes;
  return j;
}

void print_implementations(const Engine& engine) {
  print_lines(stdout, "\n");
  print_line(stdout, "implementations on %s", engine.api().name);
  for (size_t i = 0; i < engine.plan().ops.size(); ++i) {
    print_line(stdout, "  %-14s %s: %s", op_name(engine.plan().ops[i].kind),
               engine.plan().ops[i].name.c_str(), engine.op_report(i).c_str());
  }
}

}  // namespace

int plan(const PlanArgs& args) {
  CommonFlags flags = args.common;
  if (!args.fold.empty()) flags.options.push_back("debug.fold=" + args.fold);
  if (!args.schedule.empty()) flags.options.push_back("debug.schedule=" + args.schedule);
  const ModelOptions options = parse_options(flags);
  auto bundle = open_bundle(args.bundle, options);
  const Graph graph = graph_of(bundle.get());
  PlanOptions how = plan_options(options);
  if (options.tiers.host_bytes > 0) check(choose_tiers(bundle->manifest(), options, &how), true);
  const Plan p = take(make_plan(graph, how));
  if (args.dot) {
    print_lines(stdout, dump_plan_dot(p));
    return kExitOk;
  }
  const MemoryPlan memory = take(plan_memory(p, options.max_rows, options.max_rows, 64));
  std::unique_ptr<Engine> engine;
  if (args.implementations) engine = take(Engine::create(*bundle, options));
  if (args.json) {
    Json j = plan_json(p, memory, options.max_rows);
    for (size_t i = 0; engine != nullptr && i < engine->plan().ops.size(); ++i) {
      j["implementations"].push_back({{"op", engine->plan().ops[i].name}, {"report", engine->op_report(i)}});
    }
    print_json(stdout, j);
    return kExitOk;
  }
  print_lines(stdout, dump_plan(p));
  print_lines(stdout, "\n");
  print_line(stdout, "arena of a context of %lld rows: %lld bytes", static_cast<long long>(options.max_rows),
             static_cast<long long>(memory.arena_bytes));
  if (engine != nullptr) print_implementations(*engine);
  return kExitOk;
}

}  // namespace dpi::tool
