// `dpi store update`: the rows of deltas into tables that lie in RocksDB or Redis, in place.
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/rate.hpp"
#include "base/text.hpp"
#include "bundle/apply.hpp"
#include "sdk/tools/dpi/commands/command.hpp"
#include "sdk/tools/dpi/commands/store_place.hpp"
#include "sdk/tools/dpi/shared/hash_threads.hpp"
#include "sdk/tools/dpi/shared/key_file.hpp"
#include "sdk/tools/dpi/shared/loaded_model.hpp"
#include "sdk/tools/dpi/shared/terminal.hpp"
#include "store/external/table_update.hpp"

namespace dpi::tool {

namespace {

using Json = nlohmann::ordered_json;

/// A chain, checked whole against the bundle before anything changes.
struct Chain {
  std::shared_ptr<Bundle> base;
  std::vector<std::shared_ptr<const Delta>> deltas;
  size_t first = 0;  // that the bundle has not had
};

Chain open_chain(const StoreArgs& args, const HashThreads& threads, const BundleOptions& options) {
  Chain c;
  DeltaOptions how;
  how.require_signature = read_public_keys(args.require_signature);
  how.check_hashes = options.check_hashes;
  how.workers = threads.workers();
  for (const std::string& path : args.deltas) c.deltas.push_back(take(Delta::open(path, how)));
  c.base = take(Bundle::open(args.bundle, options));
  c.first = take(first_to_apply(c.base->content_hash(), args.bundle, c.deltas));
  static_cast<void>(take(open_patched(c.base, c.deltas, c.first, options)));
  return c;
}

/// The bundle as it is before and after one delta of the chain.
struct Step {
  const Delta& delta;
  const Bundle& before;
  std::shared_ptr<Bundle> after;
};

Step step_of(const Chain& c, size_t number, const BundleOptions& options) {
  const std::vector<std::shared_ptr<const Delta>> so_far(c.deltas.begin(),
                                                         c.deltas.begin() + static_cast<int64_t>(number) + 1);
  return {*c.deltas[number], number == c.first ? *c.base : c.deltas[number - 1]->result(),
          take(open_patched(c.base, so_far, c.first, options))};
}

std::vector<size_t> changed_tables(const Step& step, const StoreArgs& args) {
  const std::vector<TableSpec>& all = step.delta.manifest().tables;
  for (const std::string& name : args.tables) {
    if (std::none_of(all.begin(), all.end(), [&](const TableSpec& t) { return t.name == name; }))
      throw CommandError(kExitUsage, "--table '" + name + "': " + args.bundle + " has no such table");
  }
  std::vector<size_t> changed;
  for (size_t t = 0; t < all.size(); ++t) {
    const bool wanted = args.tables.empty() ||
                        std::find(args.tables.begin(), args.tables.end(), all[t].name) != args.tables.end();
    if (wanted && take(changes_table(step.before, step.delta, t))) changed.push_back(t);
  }
  return changed;
}

Json update_one(const Step& step, size_t table, tiered::PluginSource& store, int32_t number, Rate& rate) {
  const std::string& name = step.delta.manifest().tables[table].name;
  Progress progress("updating " + name);
  const TableUpdated done =
      take_store(update_table({step.delta, table, step.after.get()}, store, number, rate, [&](int64_t at) {
        progress.update(static_cast<uint64_t>(at), 0);
        return Status();
      }));
  const dpi_store_stat now = take_store(store.stat(number));
  return {{"name", name},
          {"delta", step.delta.name()},
          {"content", take(stored_table(step.delta.result(), table)).content},
          {"sequence", now.sequence},
          {"changes", done.changes},
          {"already", done.already}};
}

void print_update(const Json& t) {
  const bool had = t["already"] == t["changes"];
  print_line(stdout, "%-24s update %s, %s changes%s (%s)", t["name"].get<std::string>().c_str(),
             count_text(t["sequence"].get<double>()).c_str(), count_text(t["changes"].get<double>()).c_str(),
             had ? ", which were there already" : "", t["delta"].get<std::string>().c_str());
}

}  // namespace

int store_update(const StoreArgs& args) {
  HashThreads threads;
  const BundleOptions options = threads.checking();
  tiered::StoreRequest request;
  request.mode = DPI_STORE_UPDATE;
  request.settings = store_settings(args);
  Rate rate(args.bytes_per_second);  // of all tables together
  const Chain chain = open_chain(args, threads, options);
  Json j = {{"bundle", args.bundle}, {"action", args.action}, {"tables", Json::array()}};
  for (size_t d = chain.first; d < chain.deltas.size(); ++d) {
    const Step step = step_of(chain, d, options);
    const std::vector<size_t> tables = changed_tables(step, args);
    if (tables.empty()) continue;
    request.tables.clear();
    for (const size_t t : tables) request.tables.push_back(take(stored_table(step.before, t)));
    const auto store = open_store(args, request);
    for (size_t i = 0; i < tables.size(); ++i)
      j["tables"].push_back(update_one(step, tables[i], *store, static_cast<int32_t>(i), rate));
  }
  if (args.json) {
    print_json(stdout, j);
    return kExitOk;
  }
  for (const Json& t : j["tables"]) print_update(t);
  if (j["tables"].empty())
    print_line(stdout, "nothing to be done: no delta changes a table of %s", args.bundle.c_str());
  return kExitOk;
}

}  // namespace dpi::tool
