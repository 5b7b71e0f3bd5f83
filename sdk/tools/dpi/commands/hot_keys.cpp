// `dpi store hot-keys`: which rows of which tables a log of requests looks up most.
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "sdk/tools/dpi/commands/command.hpp"
#include "sdk/tools/dpi/commands/key_counter.hpp"
#include "sdk/tools/dpi/csv/row_log.hpp"
#include "sdk/tools/dpi/csv/score_file.hpp"
#include "sdk/tools/dpi/shared/planned.hpp"
#include "sdk/tools/dpi/shared/terminal.hpp"
#include "store/hot_keys/hot_key_writer.hpp"
#include "store/tiered/arena.hpp"

namespace dpi::tool {

namespace {

using Json = nlohmann::ordered_json;

/// A table that is counted.
struct CountedTable {
  size_t table = 0;  // of the bundle
  KeyCounter counter;
  uint64_t row_bytes = 0;
  size_t rows = 0;           // that were looked up
  std::vector<HotKey> keys;  // after counting: of the list
};

/// The model is loaded for its encoders: unless the caller says how, with tables in a small tier.
CommonFlags with_tier(CommonFlags flags) {
  const auto says = [&flags](const std::string& key) {
    return std::any_of(flags.options.begin(), flags.options.end(),
                       [&key](const std::string& o) { return o.starts_with(key); });
  };
  if (flags.device.empty() && !says("device=")) flags.device = "cpu";
  if (!says("debug.fold=")) flags.options.emplace_back("debug.fold=off");
  if (!says("max_contexts=")) flags.options.emplace_back("max_contexts=1");
  if (says("store.")) return flags;
  flags.options.emplace_back("store.host_bytes=67108864");
  flags.options.emplace_back("store.resident_bytes=0");
  return flags;
}

void check_arguments(const HotKeysArgs& args) {
  for (const std::string& name : args.data) {
    if (is_same_file(name, args.out))
      throw CommandError(kExitUsage, "--out '" + args.out + "' is a file that is read; name another");
  }
  if (is_same_file(args.bundle, args.out))
    throw CommandError(kExitUsage, "--out '" + args.out + "' is the bundle; name another");
}

std::vector<CountedTable> choose(const HotKeysArgs& args, const Bundle& bundle, const RowLog& log) {
  const std::vector<TableSpec>& specs = bundle.manifest().tables;
  std::vector<size_t> chosen = args.tables.empty() ? log.tables() : std::vector<size_t>();
  for (const std::string& name : args.tables) {
    const auto at = std::find_if(log.tables().begin(), log.tables().end(),
                                 [&](size_t t) { return specs[t].name == name; });
    if (at == log.tables().end())
      throw CommandError(kExitUsage, "--table '" + name + "': " + args.bundle + " looks up no such table");
    if (std::find(chosen.begin(), chosen.end(), *at) == chosen.end()) chosen.push_back(*at);
  }
  if (chosen.empty()) throw CommandError(kExitUsage, args.bundle + " looks up no table");
  std::vector<CountedTable> tables;
  for (const size_t t : chosen) {
    const TableSpec& s = specs[t];
    const auto bytes = tiered::row_bytes({s.name, s.rows, static_cast<int32_t>(s.dim), s.dtype});
    tables.push_back({t, KeyCounter(args.memory / chosen.size()), static_cast<uint64_t>(bytes), 0, {}});
  }
  return tables;
}

/// The hottest rows of all tables that so many bytes hold.
void keep_bytes(uint64_t bytes, std::vector<CountedTable>* tables) {
  struct Next {
    HotKey key;
    size_t table, at;
    bool operator<(const Next& o) const { return hotter(o.key, key); }
  };
  std::priority_queue<Next> next;
  std::vector<size_t> kept(tables->size(), 0);
  for (size_t t = 0; t < tables->size(); ++t) {
    if (!(*tables)[t].keys.empty()) next.push({(*tables)[t].keys[0], t, 0});
  }
  while (!next.empty() && (*tables)[next.top().table].row_bytes <= bytes) {
    const Next n = next.top();
    next.pop();
    const CountedTable& c = (*tables)[n.table];
    bytes -= c.row_bytes;
    kept[n.table] = n.at + 1;
    if (n.at + 1 < c.keys.size()) next.push({c.keys[n.at + 1], n.table, n.at + 1});
  }
  for (size_t t = 0; t < tables->size(); ++t) (*tables)[t].keys.resize(kept[t]);
}

/// Ends the counting; what stays is the list.
void make_list(const HotKeysArgs& args, std::vector<CountedTable>* tables) {
  size_t keys = 0;
  for (CountedTable& c : *tables) {
    c.keys = c.counter.take();
    c.rows = c.keys.size();
    if (args.top > 0) c.keys.resize(std::min(c.keys.size(), static_cast<size_t>(args.top)));
  }
  if (args.bytes > 0) keep_bytes(args.bytes, tables);
  for (const CountedTable& c : *tables) keys += c.keys.size();
  if (keys == 0)
    throw CommandError(kExitBadInput,
                       "--data: no row of a table is looked up there, so there is nothing to list");
}

void write(const std::string& path, const Bundle& bundle, const std::vector<CountedTable>& tables) {
  std::vector<HotTable> heads;
  for (const CountedTable& c : tables) {
    HotTable t = hot_table_of(bundle, c.table);
    t.lookups = c.counter.total();
    t.n = static_cast<int64_t>(c.keys.size());
    heads.push_back(std::move(t));
  }
  auto made = HotKeyWriter::create(path, std::move(heads));
  check(made.status(), false);
  for (const CountedTable& c : tables) check((*made)->add(c.keys), false);
  check((*made)->commit(), false);
}

Json table_json(const Bundle& bundle, const CountedTable& c) {
  uint64_t listed = 0;
  for (const HotKey& k : c.keys) listed += k.count;
  const auto total = static_cast<double>(std::max<uint64_t>(1, c.counter.total()));
  return {{"name", bundle.manifest().tables[c.table].name},
          {"rows", bundle.manifest().tables[c.table].loaded_rows()},
          {"lookups", c.counter.total()},
          {"rows_counted", c.rows},
          {"counts_low_by", c.counter.low_by()},
          {"rows_listed", c.keys.size()},
          {"bytes_listed", c.keys.size() * c.row_bytes},
          {"lookups_listed", listed},
          {"share_listed", static_cast<double>(listed) / total}};
}

void print_hot_table(const Json& t) {
  const auto low = t["counts_low_by"].get<double>();
  print_line(stdout, "%-24s %s of %s rows, %s: %s %% of %s lookups%s", t["name"].get<std::string>().c_str(),
             count_text(t["rows_listed"].get<double>()).c_str(), count_text(t["rows"].get<double>()).c_str(),
             bytes_text(t["bytes_listed"].get<double>()).c_str(),
             number_text(100 * t["share_listed"].get<double>(), 1).c_str(),
             count_text(t["lookups"].get<double>()).c_str(),
             low == 0 ? "" : ("; counts may be low by " + count_text(low) + ", see --memory").c_str());
}

}  // namespace

int hot_keys(const HotKeysArgs& args) {
  const CommonFlags flags = with_tier(args.common);
  const ModelOptions options = parse_options(flags);
  auto bundle = open_bundle(args.bundle, options);
  check_arguments(args);
  const LoadedModel model(args.bundle, flags);
  RowLog log(model, bundle.get(), options);
  std::vector<CountedTable> tables = choose(args, *bundle, log);
  std::vector<KeyCounter*> counter_of(bundle->manifest().tables.size(), nullptr);
  for (CountedTable& c : tables) counter_of[c.table] = &c.counter;
  int64_t requests = 0;
  for (const std::string& path : args.data) {
    requests += log.read(path, args.raw, args.limits, [&](size_t table, std::span<const int64_t> rows) {
      if (counter_of[table] == nullptr) return;
      for (const int64_t row : rows) counter_of[table]->add(row);
    });
  }
  make_list(args, &tables);
  write(args.out, *bundle, tables);
  Json j = {{"bundle", args.bundle}, {"out", args.out}, {"requests", requests}, {"tables", Json::array()}};
  for (const CountedTable& c : tables) j["tables"].push_back(table_json(*bundle, c));
  if (args.json) {
    print_json(stdout, j);
    return kExitOk;
  }
  for (const Json& t : j["tables"]) print_hot_table(t);
  return kExitOk;
}

}  // namespace dpi::tool
