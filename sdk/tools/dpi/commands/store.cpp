// `dpi store`: a bundle's tables in RocksDB or Redis: load, stat, verify, drop. store_update.cpp has update.
#include <algorithm>
#include <functional>
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

/// rows: counted, so that what a store has lost is not told as there.
Json stat_json(const tiered::StoredTable& t, const dpi_store_stat& s, const dpi_store_loss& loss) {
  Json j = {{"name", t.name},
            {"content", t.content},
            {"rows", loss.rows},
            {"of", t.rows},
            {"complete", s.complete != 0}};
  j["missing"] = loss.what[0] == '\0' ? Json() : Json(loss.what);
  j["missing_rows"] = loss.missing_rows;
  j["missing_partitions"] = loss.missing_parts;
  j["bytes"] = s.bytes < 0 ? Json() : Json(s.bytes);
  j["sequence"] = s.sequence;
  j["now"] = s.content;
  j["updating"] = s.updating != 0;
  j["writer"] = s.writer[0] == '\0' ? Json() : Json(s.writer);
  return j;
}

void print_stored(const Json& table) {
  const bool whole = table["complete"].get<bool>(), updating = table["updating"].get<bool>();
  const bool lost = !table["missing"].is_null();
  print_line(stdout, "%-24s %s of %s rows%s%s", table["name"].get<std::string>().c_str(),
             count_text(table["rows"].get<double>()).c_str(), count_text(table["of"].get<double>()).c_str(),
             table["bytes"].is_null() ? "" : (", " + bytes_text(table["bytes"].get<double>())).c_str(),
             whole || updating ? "" : ", not complete: dpi store load goes on");
  if (lost) {
    print_line(stdout, "%-24s lost: %s; %s rows are missing, dpi store load writes them again", "",
               table["missing"].get<std::string>().c_str(),
               count_text(table["missing_rows"].get<double>()).c_str());
  }
  if (table["sequence"] == 0 && !updating) return;
  print_line(
      stdout, "%-24s update %s, content %s...%s", "", count_text(table["sequence"].get<double>()).c_str(),
      table["now"].get<std::string>().substr(0, 12).c_str(),
      !updating                   ? ""
      : table["writer"].is_null() ? ", another one has begun and nobody goes on: dpi store update does"
                                  : (", being updated by " + table["writer"].get<std::string>()).c_str());
}

using Work = std::function<Result<int64_t>(size_t table, int32_t number, const RowProgress&)>;

/// One table after the other under a progress line; gives the rows that were written.
int64_t go_through(const Chosen& c, const char* label, const Work& work) {
  int64_t rows_written = 0;
  for (size_t i = 0; i < c.tables.size(); ++i) {
    Progress progress(std::string(label) + " " + c.request.tables[i].name);
    const auto rows = static_cast<uint64_t>(c.request.tables[i].rows);
    rows_written += take_store(work(c.tables[i], static_cast<int32_t>(i), [&](int64_t done) {
      progress.update(static_cast<uint64_t>(done), rows);
      return Status();
    }));
  }
  return rows_written;
}

/// Counted, except by who takes it away.
Json table_json(const tiered::StoredTable& t, PluginSource& store, int32_t number, bool drop) {
  const dpi_store_stat stat = take_store(store.stat(number));
  dpi_store_loss loss{};
  loss.rows = stat.rows;
  if (!drop) loss = take_store(store.count(number));
  return stat_json(t, stat, loss);
}

int32_t store_mode(const std::string& action) {
  if (action == "stat") return DPI_STORE_LOOK;
  return action == "load" || action == "drop" ? DPI_STORE_WRITE : DPI_STORE_READ;
}

}  // namespace

int store(const StoreArgs& args) {
  // What a table is called in the store is a hash that the file states: it must be that of its rows.
  HashThreads threads;
  auto bundle = take(Bundle::open(args.bundle, threads.checking()));
  Chosen chosen = choose(*bundle, args);
  chosen.request.mode = store_mode(args.action);
  const std::unique_ptr<PluginSource> source = open_store(args, chosen.request);
  Json j;
  j["bundle"] = args.bundle;
  j["action"] = args.action;
  if (args.action == "load")
    j["written"] = go_through(chosen, "loading", [&](size_t t, int32_t number, const RowProgress& progress) {
      return write_table(*bundle, t, *source, number, progress);
    });
  if (args.action == "verify") {
    go_through(chosen, "comparing",
               [&](size_t t, int32_t number, const RowProgress& progress) -> Result<int64_t> {
                 DPI_RETURN_IF_ERROR(compare_table(*bundle, t, *source, number, progress));
                 return 0;
               });
  }
  j["tables"] = Json::array();
  bool whole = true;
  for (size_t i = 0; i < chosen.tables.size(); ++i) {
    const auto table = static_cast<int32_t>(i);
    const bool drop = args.action == "drop";
    j["tables"].push_back(table_json(chosen.request.tables[i], *source, table, drop));
    whole = whole && j["tables"].back()["missing"].is_null();
    if (drop) check_store(source->drop(table));
  }
  if (args.json) {
    print_json(stdout, j);
    return whole ? kExitOk : kExitDevice;
  }
  for (const Json& table : j["tables"]) print_stored(table);
  const std::string told = args.action == "drop"     ? "dropped"
                           : args.action == "verify" ? "the same as the bundle's"
                                                     : "";
  if (!told.empty()) print_line(stdout, "%s", told.c_str());
  if (args.action == "load") {
    print_line(stdout, "%s rows written", count_text(j["written"].get<double>()).c_str());
  }
  return whole ? kExitOk : kExitDevice;
}

}  // namespace dpi::tool
