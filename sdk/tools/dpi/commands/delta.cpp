// `dpi delta`: what changed between two versions of a bundle; made by the Python package, shown and applied
// here.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "bundle/apply.hpp"
#include "sdk/tools/dpi/commands/command.hpp"
#include "sdk/tools/dpi/commands/python_package.hpp"
#include "sdk/tools/dpi/csv/score_file.hpp"
#include "sdk/tools/dpi/shared/hash_threads.hpp"
#include "sdk/tools/dpi/shared/key_file.hpp"
#include "sdk/tools/dpi/shared/loaded_model.hpp"
#include "sdk/tools/dpi/shared/terminal.hpp"

namespace dpi::tool {

namespace {

using Json = nlohmann::ordered_json;

std::shared_ptr<const Delta> open_delta(const std::string& path, const DeltaArgs& args,
                                        const HashThreads& threads) {
  DeltaOptions options;
  options.require_signature = read_public_keys(args.require_signature);
  options.check_hashes = have_content_hash();
  options.workers = threads.workers();
  return take(Delta::open(path, options));
}

Json table_json(const Delta& delta, const TableDelta& t) {
  const TableSpec& spec = delta.manifest().tables[t.table];
  uint64_t bytes = 0;
  for (const DataSetInfo* part : {t.rows, t.scale, t.offset})
    bytes += part == nullptr ? 0 : part->extent.length;
  return {{"name", spec.name},
          {"rows", spec.rows},
          {"dim", spec.dim},
          {"dtype", name_of(spec.dtype)},
          {"all", t.all},
          {"set", t.set()},
          {"default_row", t.default_row},
          {"gone", t.gone.size()},
          {"bytes", bytes}};
}

Json delta_json(const Delta& delta) {
  Json j = {{"delta", delta.name()},
            {"name", delta.manifest().name},
            {"bytes", delta.file_bytes()},
            {"base", hex_bytes(delta.base())},
            {"new", hex_bytes(delta.version())},
            {"bundle_bytes", delta.result().file_bytes()},
            {"signed_by", Json::array()},
            {"tables", Json::array()},
            {"key_sets", Json::array()},
            {"external", Json::array()},
            {"arrays", Json::array()}};
  for (const Signature& s : delta.signatures()) j["signed_by"].push_back(hex_bytes(s.key));
  for (const TableDelta& t : delta.tables()) j["tables"].push_back(table_json(delta, t));
  for (const KeySetDelta& s : delta.key_sets()) {
    const KeySetSpec& spec = delta.manifest().key_sets[s.key_set];
    j["key_sets"].push_back(
        {{"name", spec.name}, {"keys", spec.keys}, {"added", s.added.size()}, {"gone", s.gone.size()}});
  }
  for (const TableSpec& t : delta.manifest().tables)
    if (t.external)
      j["external"].push_back({{"name", t.name}, {"digest", t.digest.empty() ? Json() : Json(t.digest)}});
  for (const DataSetInfo* info : delta.arrays())
    j["arrays"].push_back({{"path", info->path}, {"elements", info->shape}, {"bytes", info->extent.length}});
  return j;
}

std::string text_of(const Json& j, const char* key) { return j[key].get<std::string>(); }

void print_table(const Json& t) {
  std::string says = t["all"].get<bool>() ? "all rows" : count_text(t["set"].get<double>()) + " rows set";
  if (t["default_row"].get<bool>()) says += " (the default row too)";
  if (t["gone"] != 0) says += ", " + count_text(t["gone"].get<double>()) + " gone";
  print_line(stdout, "  table %-18s %s of %s, %s", text_of(t, "name").c_str(), says.c_str(),
             count_text(t["rows"].get<double>()).c_str(), bytes_text(t["bytes"].get<double>()).c_str());
}

void print(const Json& j) {
  print_line(stdout, "%s: a delta of %s, %s; the new bundle has %s", text_of(j, "delta").c_str(),
             text_of(j, "name").c_str(), bytes_text(j["bytes"].get<double>()).c_str(),
             bytes_text(j["bundle_bytes"].get<double>()).c_str());
  print_line(stdout, "base     %s", text_of(j, "base").c_str());
  print_line(stdout, "new      %s", text_of(j, "new").c_str());
  for (const Json& id : j["signed_by"])
    print_line(stdout, "signature by key %s (checked where --require-signature says so)",
               id.get<std::string>().c_str());
  for (const Json& t : j["tables"]) print_table(t);
  for (const Json& s : j["key_sets"])
    print_line(stdout, "  key set %-16s %s keys added, %s gone, %s now", text_of(s, "name").c_str(),
               count_text(s["added"].get<double>()).c_str(), count_text(s["gone"].get<double>()).c_str(),
               count_text(s["keys"].get<double>()).c_str());
  for (const Json& t : j["external"])
    print_line(stdout, "  table %-18s external, content %s", text_of(t, "name").c_str(),
               t["digest"].is_null() ? "not stated" : text_of(t, "digest").c_str());
  for (const Json& a : j["arrays"])
    print_line(stdout, "  %-24s %s%s", text_of(a, "path").c_str(),
               bytes_text(a["bytes"].get<double>()).c_str(),
               text_of(a, "path").starts_with("/encoders/") ? " behind what the base has" : "");
}

/// The new bundle is written beside the output and renamed: what is read may lie at neither place. The base
/// may be the output.
void check_output(const DeltaArgs& args) {
  const std::string part = args.output + ".part";
  for (const std::string& path : args.deltas)
    if (is_same_file(path, args.output))
      throw CommandError(kExitUsage, "--output '" + args.output + "' is a delta that is read; name another");
  std::vector<std::string> read = args.deltas;
  read.push_back(args.base);
  for (const std::string& path : read)
    if (is_same_file(path, part))
      throw CommandError(kExitUsage, "--output '" + args.output + "' is first written as '" + part +
                                         "', which is a file that is read; name another");
}

}  // namespace

int delta_make(const DeltaArgs& args) {
  std::vector<std::string> words = {args.base, args.next, args.output};
  if (!args.key.empty()) words.insert(words.end(), {"--key", args.key});
  if (args.json) words.emplace_back("--json");
  return run_package(args.python, "delta", words);
}

int delta_show(const DeltaArgs& args) {
  HashThreads threads;
  const auto delta = open_delta(args.deltas.at(0), args, threads);
  const Json j = delta_json(*delta);
  if (args.json) {
    print_json(stdout, j);
  } else {
    print(j);
  }
  return kExitOk;
}

int delta_apply(const DeltaArgs& args) {
  HashThreads threads;
  check_output(args);
  std::vector<std::shared_ptr<const Delta>> deltas;
  for (const std::string& path : args.deltas) deltas.push_back(open_delta(path, args, threads));
  BundleOptions options;
  options.check_hashes = true;
  options.workers = threads.workers();
  const std::shared_ptr<Bundle> base = take(Bundle::open(args.base, options));
  const ContentHash version = base->content_hash();
  const size_t first = take(first_to_apply(version, args.base, deltas));
  const auto bundle = take(open_patched(base, deltas, first, options));
  const bool nothing = first == deltas.size() && is_same_file(args.base, args.output);
  if (!nothing) {
    Progress progress("writing " + args.output);
    check(write_bundle_file(bundle, args.output, options,
                            [&](uint64_t done, uint64_t total) { progress.update(done, total); }),
          true);
  }
  const Json j = {{"base", args.base},
                  {"output", args.output},
                  {"from", hex_bytes(version)},
                  {"version", hex_bytes(bundle->content_hash())},
                  {"applied", deltas.size() - first},
                  {"already_applied", first},
                  {"bytes", bundle->file_bytes()}};
  if (args.json) {
    print_json(stdout, j);
    return kExitOk;
  }
  for (size_t i = 0; i < first; ++i)
    print_line(stdout, "%s: already applied, %s has it", deltas[i]->name().c_str(), args.base.c_str());
  print_line(stdout, "%s: version %s, %zu of %zu deltas applied%s", args.output.c_str(),
             hex_bytes(bundle->content_hash()).c_str(), deltas.size() - first, deltas.size(),
             nothing ? "; nothing was written" : "");
  return kExitOk;
}

}  // namespace dpi::tool
