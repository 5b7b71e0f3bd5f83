// `dpi store`: a bundle's tables in RocksDB or Redis: load, stat, verify, drop. store_update.cpp has update.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "bundle/bundle.hpp"
#include "sdk/tools/dpi/commands/command.hpp"
#include "sdk/tools/dpi/commands/store_place.hpp"
#include "sdk/tools/dpi/shared/hash_threads.hpp"
#include "sdk/tools/dpi/shared/loaded_model.hpp"
#include "sdk/tools/dpi/shared/terminal.hpp"
#include "store/external/stored_tables.hpp"

namespace dpi::tool {

namespace {

using Json = nlohmann::ordered_json;
using tiered::PluginSource;

struct Chosen {
  std::vector<size_t> tables;  // of the bundle
  tiered::StoreRequest request;
};

/// The tables that were asked for, else all that have rows in the bundle.
Chosen choose(const Bundle& bundle, const StoreArgs& args) {
  Chosen c;
  const std::vector<TableSpec>& all = bundle.manifest().tables;
  for (const std::string& name : args.tables) {
    const auto at = std::find_if(all.begin(), all.end(), [&](const TableSpec& t) { return t.name == name; });
    if (at == all.end())
      throw CommandError(kExitUsage, "--table '" + name + "': " + args.bundle + " has no such table");
    c.tables.push_back(static_cast<size_t>(at - all.begin()));
  }
  for (size_t t = 0; args.tables.empty() && t < all.size(); ++t) {
    if (!all[t].external) c.tables.push_back(t);
  }
  for (const size_t t : c.tables) c.request.tables.push_back(take(stored_table(bundle, t)));
  c.request.settings = store_settings(args);
  // What stat is asked about a table that has become another one is just that.
  for (tiered::StoredTable& t : c.request.tables) t.stale = args.action == "stat";
  return c;
}

Json stat_json(const tiered::StoredTable& t, const dpi_store_stat& s) {
  Json j = {{"name", t.name},
            {"content", t.content},
            {"rows", s.rows},
            {"of", t.rows},
            {"complete", s.complete != 0}};
  j["bytes"] = s.bytes < 0 ? Json() : Json(s.bytes);
  j["sequence"] = s.sequence;
  j["now"] = s.content;
  j["updating"] = s.updating != 0;
  j["writer"] = s.writer[0] == '\0' ? Json() : Json(s.writer);
  return j;
}

void print_stored(const Json& table) {
  const bool whole = table["complete"].get<bool>(), updating = table["updating"].get<bool>();
  print_line(stdout, "%-24s %s of %s rows%s%s", table["name"].get<std::string>().c_str(),
             count_text(table["rows"].get<double>()).c_str(), count_text(table["of"].get<double>()).c_str(),
             table["bytes"].is_null() ? "" : (", " + bytes_text(table["bytes"].get<double>())).c_str(),
             whole || updating ? "" : ", not complete: dpi store load goes on");
  if (table["sequence"] == 0 && !updating) return;
  print_line(
      stdout, "%-24s update %s, content %s...%s", "", count_text(table["sequence"].get<double>()).c_str(),
      table["now"].get<std::string>().substr(0, 12).c_str(),
      !updating                   ? ""
      : table["writer"].is_null() ? ", another one has begun and nobody goes on: dpi store update does"
                                  : (", being updated by " + table["writer"].get<std::string>()).c_str());
}

using Work = Status (*)(Bundle&, size_t, PluginSource&, int32_t, const RowProgress&);

/// One table after the other under a progress line.
void go_through(Bundle& bundle, const Chosen& c, PluginSource& store, const char* label, Work work) {
  for (size_t i = 0; i < c.tables.size(); ++i) {
    Progress progress(std::string(label) + " " + c.request.tables[i].name);
    const auto rows = static_cast<uint64_t>(c.request.tables[i].rows);
    check_store(work(bundle, c.tables[i], store, static_cast<int32_t>(i), [&](int64_t done) {
      progress.update(static_cast<uint64_t>(done), rows);
      return Status();
    }));
  }
}

}  // namespace

int store(const StoreArgs& args) {
  // What a table is called in the store is a hash that the file states: it must be that of its rows.
  HashThreads threads;
  BundleOptions how;
  how.workers = threads.workers();
  how.check_hashes = have_content_hash();
  auto bundle = take(Bundle::open(args.bundle, how));
  Chosen chosen = choose(*bundle, args);
  chosen.request.mode = args.action == "load" || args.action == "drop" ? DPI_STORE_WRITE : DPI_STORE_READ;
  const std::unique_ptr<PluginSource> source = open_store(args, chosen.request);
  if (args.action == "load") go_through(*bundle, chosen, *source, "loading", write_table);
  if (args.action == "verify") go_through(*bundle, chosen, *source, "comparing", compare_table);
  Json j;
  j["bundle"] = args.bundle;
  j["action"] = args.action;
  j["tables"] = Json::array();
  for (size_t i = 0; i < chosen.tables.size(); ++i) {
    const auto table = static_cast<int32_t>(i);
    j["tables"].push_back(stat_json(chosen.request.tables[i], take_store(source->stat(table))));
    if (args.action == "drop") check_store(source->drop(table));
  }
  if (args.json) {
    print_json(stdout, j);
    return kExitOk;
  }
  for (const Json& table : j["tables"]) print_stored(table);
  const std::string told = args.action == "drop"     ? "dropped"
                           : args.action == "verify" ? "the same as the bundle's"
                                                     : "";
  if (!told.empty()) print_line(stdout, "%s", told.c_str());
  return kExitOk;
}

}  // namespace dpi::tool
