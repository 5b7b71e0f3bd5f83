// `dpi inspect`: what a bundle holds.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "runtime/engine/memory_forecast.hpp"
#include "runtime/load/table_loader.hpp"
#include "runtime/load/tiers.hpp"
#include "sdk/tools/dpi/commands/command.hpp"
#include "sdk/tools/dpi/shared/loaded_model.hpp"
#include "sdk/tools/dpi/shared/planned.hpp"
#include "sdk/tools/dpi/shared/provenance.hpp"
#include "sdk/tools/dpi/shared/terminal.hpp"
#include "store/host_tier/row_scalars.hpp"
#include "store/hot_keys/hot_keys.hpp"

namespace dpi::tool {

namespace {

using Json = nlohmann::ordered_json;

Json feature_json(const FeatureSpec& f) {
  Json j = {{"name", f.name}, {"kind", name_of(f.kind)}};
  j["space"] = name_of(f.space);
  if (f.is_keyed()) j["keys"] = f.keys;
  if (f.is_keyed() && f.has_pad_id) j["pad_id"] = f.pad_id;
  if (f.is_slot() && !f.is_keyed()) j["vocab_size"] = f.vocab_size;
  if (f.is_slot() && !f.is_keyed()) j["out_of_range"] = name_of(f.out_of_range);
  j["missing"] = name_of(f.missing);
  if (f.kind == FeatureKind::kDense) j["dim"] = f.dim;
  if (f.kind == FeatureKind::kSequence) j["max_len"] = f.max_len;
  if (f.weighted) j["weighted"] = true;
  j["encoder"] = Json::array();
  for (const EncoderStep& step : f.encoder.steps) j["encoder"].push_back(name_of(step));
  if (f.encoder.has_splitter) j["splitter"] = f.encoder.splitter;
  if (f.encoder.has_missing_element) j["missing_element"] = f.encoder.missing_element;
  return j;
}

int64_t table_bytes(const TableSpec& t) {
  const kernels::RowForm& form = kernels::row_form(t.dtype);
  return t.rows * (kernels::element_row_bytes(t.dtype, t.dim) + form.scale_bytes + form.offset_bytes);
}

/// A table as JSON. For an external one, values that the bundle does not state are null.
Json table_json(const TableSpec& t) {
  Json j = {{"name", t.name}, {"rows", t.rows}, {"dim", t.dim}, {"dtype", name_of(t.dtype)}};
  if (!t.keys.empty()) j["keys"] = t.keys;
  if (!t.external) {
    j["bytes"] = table_bytes(t);
    return j;
  }
  if (t.rows == 0) j["rows"] = Json();
  j["external"] = true;
  j["digest"] = t.digest.empty() ? Json() : Json(t.digest);
  j["default"] = t.default_row;
  return j;
}

Json key_set_json(const KeySetSpec& s) {
  Json j = {{"name", s.name}, {"keys", s.keys}};
  if (s.keys == 0) j["keys"] = Json();
  if (s.external()) j["external"] = true;
  return j;
}

/// The bundle's hot-key list, table by table.
Json hot_keys_json(const Bundle& bundle) {
  Json j = Json::array();
  const std::unique_ptr<HotKeyFile> list = take(HotKeyFile::of_bundle(bundle));
  if (list == nullptr) return j;
  for (const HotTable& t : list->tables())
    j.push_back({{"table", t.name}, {"rows", t.rows}, {"keys", t.n}, {"lookups", t.lookups}});
  return j;
}

bool has_external(const Manifest& m) {
  return std::any_of(m.tables.begin(), m.tables.end(), [](const TableSpec& t) { return t.external; });
}

Json forecast_json(const MemoryForecast& f) {
  return {{"tables_bytes", f.tables},
          {"may_share_bytes", f.may_share},
          {"host_tier_bytes", f.host_tier},
          {"device_cache_bytes", f.device_cache},
          {"packed_weight_bytes", f.weights},
          {"key_bytes", f.keys},
          {"encoder_bytes", f.encoders},
          {"model_bytes", f.model},
          {"user_cache_bytes", f.user_cache},
          {"flight_bytes", f.flight},
          {"context_bytes", f.context_own()},
          {"in_flight", f.flights},
          {"contexts", f.contexts},
          {"parked_contexts", f.parked},
          {"loading_bytes", f.loading},
          {"least_bytes", f.least()},
          {"most_bytes", f.most()}};
}

/// Memory of each of several devices, with its share of tables that lie on all of them.
Json devices_json(const MemoryForecast& f) {
  Json j = Json::array();
  for (const DeviceShare& d : f.devices)
    j.push_back({{"index", d.index},
                 {"tables_bytes", d.tables},
                 {"range_bytes", d.range},
                 {"copies_bytes", d.copies},
                 {"packed_weight_bytes", d.weights},
                 {"contexts_bytes", d.contexts}});
  return j;
}

/// Bytes as the plan will need them, padding included, in host memory (device cpu) and on a GPU. Tables are
/// unpadded in the file.
Json memory_json(const Bundle& bundle, const Graph& graph, const ModelOptions& options) {
  constexpr int64_t kHostAlignment = 64, kDeviceAlignment = 256;
  PlanOptions how = plan_options(options);
  check(choose_tiers(bundle.manifest(), options, &how), true);
  const Plan plan = take(make_plan(graph, how));
  Json j;
  j["max_rows"] = options.max_rows;
  j["in_host_tier"] = Json::array();
  for (const tiered::TierTable& t : tier_tables(store_tables(bundle, plan, false))) {
    j["in_host_tier"].push_back({{"name", t.name},
                                 {"bytes", t.rows * kernels::row_bytes_of(t.dtype, t.dim)},
                                 {"place_bytes", tiered::row_stride(t)},
                                 {"derived_scalars", t.scalars}});
  }
  const int64_t weight = least_weight_bytes(options);
  j["host"] =
      forecast_json(take(forecast_memory(bundle, plan, options, {false, kHostAlignment, 0, 0, weight})));
  const MemoryForecast gpu =
      take(forecast_memory(bundle, plan, options, {true, kDeviceAlignment, 0, 0, weight}));
  j["gpu"] = forecast_json(gpu);
  j["devices"] = devices_json(gpu);
  j["device_cache"] = Json::array();
  for (const LineShare& s : take(device_cache_shares(store_tables(bundle, plan, false), options.tiers)))
    j["device_cache"].push_back(
        {{"row_bytes", s.row_bytes}, {"lines", s.lines}, {"bytes", s.bytes}, {"tables", s.tables}});
  return j;
}

Json inspect_json(const Bundle& bundle, const Graph& graph, const ModelOptions& options) {
  const Manifest& m = bundle.manifest();
  Json j;
  j["name"] = m.name;
  j["file"] = bundle.name();
  j["format"] = {2, m.version_minor};
  j["bytes"] = bundle.file_bytes();
  char digest[20];
  std::snprintf(digest, sizeof digest, "%016llx", static_cast<unsigned long long>(bundle.content_digest()));
  j["content_digest"] = digest;
  j["content_version"] = have_content_hash() ? Json(hex_bytes(bundle.content_hash())) : Json();
  j["signed_by"] = Json::array();
  for (const Signature& signature : bundle.signatures()) j["signed_by"].push_back(hex_bytes(signature.key));
  j["provenance"] = m.provenance.empty() ? Json() : Json::parse(m.provenance);
  j["features"] = Json::array();
  const auto own = held_to_themselves(m.provenance);
  for (const FeatureSpec& f : m.features) {
    j["features"].push_back(feature_json(f));
    if (own.count(f.name) != 0) j["features"].back()["compared_with_training"] = false;
  }
  j["tables"] = Json::array();
  for (const TableSpec& t : m.tables) j["tables"].push_back(table_json(t));
  j["key_sets"] = Json::array();
  for (const KeySetSpec& s : m.key_sets) j["key_sets"].push_back(key_set_json(s));
  j["hot_keys"] = hot_keys_json(bundle);
  j["ops"] = m.ops.size();
  j["heads"] = Json::array();
  for (const HeadSpec& h : m.heads) {
    j["heads"].push_back(
        {{"name", h.name}, {"value", h.value}, {"logit", h.logit}, {"activation", h.activation}});
  }
  j["golden"] = {
      {"rows", m.golden.rows}, {"shared_rows", m.golden.shared_rows}, {"tolerance", m.golden.tolerance}};
  const bool known = !has_external(m) || options.tiers.host_bytes > 0;
  j["memory"] = known ? memory_json(bundle, graph, options) : Json();
  return j;
}

std::string feature_text(const Json& f) {
  std::string s =
      "  " + padded(f["name"].get<std::string>(), 24) + " " + padded(f["kind"].get<std::string>(), 12);
  if (f["space"] == "shared") s += "shared, ";
  if (f.contains("vocab_size"))
    s += count_text(f["vocab_size"]) + " ids, out of range: " + f["out_of_range"].get<std::string>() + ", ";
  if (f.contains("keys")) s += "keys of " + f["keys"].get<std::string>() + ", ";
  if (f.contains("dim")) s += "dim " + f["dim"].dump() + ", ";
  if (f.contains("max_len") && f["max_len"] != 0) s += "at most " + f["max_len"].dump() + ", ";
  if (f.contains("weighted")) s += "weighted, ";
  s += "missing: " + f["missing"].get<std::string>();
  for (size_t i = 0; i < f["encoder"].size(); ++i) {
    s += (i == 0 ? ", encoder: " : " > ") + f["encoder"][i].get<std::string>();
  }
  if (f.contains("splitter")) {
    const auto splitter = f["splitter"].get<std::string>();
    s += ", bags split at " + (splitter.empty() ? "white space" : in_quotes(splitter));
  }
  if (f.contains("missing_element")) s += ", a missing element is id " + f["missing_element"].dump();
  if (f.contains("compared_with_training")) s += ", not compared with training";
  return s;
}

/// The widths of a part of a batch: ": slots 8, columns 6", or ", shared slots 1, columns 3".
std::string widths_text(const Json& features, const char* space) {
  int64_t slots = 0, columns = 0;
  for (const Json& f : features) {
    if (f["space"] != space) continue;
    const bool ids = f["kind"] == "categorical" || f["kind"] == "sequence";
    (ids ? slots : columns) += f["kind"] == "dense" ? f["dim"].get<int64_t>() : 1;
  }
  if (slots == 0 && columns == 0) return std::string();
  const char* of_part = std::string(space) == "item" ? ": slots " : ", shared slots ";
  return of_part + count_text(slots) + ", columns " + count_text(columns);
}

std::string widths_text(const Json& features) {
  return widths_text(features, "item") + widths_text(features, "shared");
}

void print_provenance(const Json& provenance) {
  if (!provenance.is_object()) return;
  print_lines(stdout, "\n");
  print_line(stdout, "provenance");
  for (const auto& [key, value] : provenance.items()) {
    print_line(stdout, "  %-12s %s", key.c_str(),
               (value.is_string() ? value.get<std::string>() : value.dump()).c_str());
  }
}

void print_tiered(const Json& t) {
  const std::string scalars = t["derived_scalars"] == 0
                                  ? std::string()
                                  : ", derived scalars among them: " + t["derived_scalars"].dump();
  print_line(stdout, "host tier       table %s, %s in the file; a row takes %s bytes of the tier%s",
             t["name"].get<std::string>().c_str(), bytes_text(t["bytes"]).c_str(),
             t["place_bytes"].dump().c_str(), scalars.c_str());
}

void print_hot_keys(const Json& tables) {
  for (const Json& t : tables)
    print_line(stdout, "  hot keys of %-12s %12s rows, %s lookups counted",
               t["table"].get<std::string>().c_str(), count_text(t["keys"]).c_str(),
               count_text(t["lookups"]).c_str());
}

/// Copies of rows of one stride, as the cache begins: sets go to where they are met more often.
void print_share(const Json& s) {
  std::string tables;
  for (const Json& name : s["tables"]) tables += (tables.empty() ? "" : ", ") + name.get<std::string>();
  print_line(stdout, "copies on the gpu  %s rows of %s at first, %s: %s", count_text(s["lines"]).c_str(),
             bytes_text(s["row_bytes"]).c_str(), bytes_text(s["bytes"]).c_str(), tables.c_str());
}

void print_tiers(const Json& memory) {
  for (const Json& t : memory["in_host_tier"]) print_tiered(t);
  for (const Json& s : memory["device_cache"]) print_share(s);
}

void print_devices(const Json& devices) {
  for (const Json& d : devices) {
    const std::string copies = d["copies_bytes"] == 0
                                   ? std::string()
                                   : ", copies of others' hot rows at most " + bytes_text(d["copies_bytes"]);
    print_line(stdout, "memory on GPU %s  tables %s, of tables on several GPUs %s%s, weights %s, contexts %s",
               d["index"].dump().c_str(), bytes_text(d["tables_bytes"]).c_str(),
               bytes_text(d["range_bytes"]).c_str(), copies.c_str(),
               bytes_text(d["packed_weight_bytes"]).c_str(), bytes_text(d["contexts_bytes"]).c_str());
  }
}

void print_bundle(const Json& j) {
  print_line(stdout, "%s: %s, format %s.%s, %s, digest %s", j["file"].get<std::string>().c_str(),
             j["name"].get<std::string>().c_str(), j["format"][0].dump().c_str(),
             j["format"][1].dump().c_str(), bytes_text(j["bytes"]).c_str(),
             j["content_digest"].get<std::string>().c_str());
  if (!j["content_version"].is_null())
    print_line(stdout, "version %s", j["content_version"].get<std::string>().c_str());
  for (const Json& id : j["signed_by"])
    print_line(stdout, "signature by key %s (not checked here: dpi verify --option require_signature=...)",
               id.get<std::string>().c_str());
  print_provenance(j["provenance"]);
  print_lines(stdout, "\n");
  print_line(stdout, "features (%zu)%s", j["features"].size(), widths_text(j["features"]).c_str());
  for (const Json& f : j["features"]) print_line(stdout, "%s", feature_text(f).c_str());
  print_lines(stdout, "\n");
  print_line(stdout, "tables (%zu)", j["tables"].size());
  for (const Json& t : j["tables"]) {
    std::string rest = t.contains("external") ? "external" : bytes_text(t["bytes"]);
    if (t.contains("keys")) rest += ", keys of " + t["keys"].get<std::string>();
    print_line(stdout, "  %-24s %12s x %-6s %-5s %s", t["name"].get<std::string>().c_str(),
               t["rows"].is_null() ? "unknown" : count_text(t["rows"]).c_str(), t["dim"].dump().c_str(),
               t["dtype"].get<std::string>().c_str(), rest.c_str());
  }
  for (const Json& s : j["key_sets"]) {
    print_line(stdout, "  key set %-16s %12s keys%s", s["name"].get<std::string>().c_str(),
               s["keys"].is_null() ? "unknown" : count_text(s["keys"]).c_str(),
               s.contains("external") ? ", external" : "");
  }
  print_hot_keys(j["hot_keys"]);
  print_lines(stdout, "\n");
  print_line(stdout, "heads");
  for (const Json& h : j["heads"]) {
    print_line(stdout, "  %-24s %s%s", h["name"].get<std::string>().c_str(),
               h["activation"].get<std::string>().c_str(),
               h["logit"].get<std::string>().empty() ? "" : ", with logit");
  }
  print_lines(stdout, "\n");
  print_line(stdout, "%s ops, %s golden rows", j["ops"].dump().c_str(), j["golden"]["rows"].dump().c_str());
  if (j["memory"].is_null()) {
    print_line(stdout,
               "memory: not known, since rows of external tables are elsewhere: options store.* say where");
    return;
  }
  print_tiers(j["memory"]);
  for (const char* where : {"host", "gpu"}) {
    const Json& m = j["memory"][where];
    std::string tier =
        m["host_tier_bytes"] == 0 ? std::string() : ", host tier " + bytes_text(m["host_tier_bytes"]);
    if (m["device_cache_bytes"] != 0) tier += ", copies there " + bytes_text(m["device_cache_bytes"]);
    if (m["may_share_bytes"] != 0)
      tier.insert(0, " (" + bytes_text(m["may_share_bytes"]) + " of it once for models of equal tables)");
    print_line(stdout,
               "memory on %-4s  tables %s%s, weights %s, a call of up to %s rows %s; at least %s, at most %s",
               where, bytes_text(m["tables_bytes"]).c_str(), tier.c_str(),
               bytes_text(m["packed_weight_bytes"]).c_str(), j["memory"]["max_rows"].dump().c_str(),
               bytes_text(m["flight_bytes"]).c_str(), bytes_text(m["least_bytes"]).c_str(),
               bytes_text(m["most_bytes"]).c_str());
  }
  print_devices(j["memory"]["devices"]);
}

}  // namespace

int inspect(const InspectArgs& args) {
  const ModelOptions options = parse_options(args.common);
  auto bundle = open_bundle(args.bundle, options);
  const Graph graph = graph_of(bundle.get());
  if (args.json) {
    Json j = inspect_json(*bundle, graph, options);
    if (args.graph) j["graph"] = dump_graph(graph);
    print_json(stdout, j);
    return kExitOk;
  }
  if (args.graph) {
    print_lines(stdout, dump_graph(graph));
    return kExitOk;
  }
  print_bundle(inspect_json(*bundle, graph, options));
  return kExitOk;
}

}  // namespace dpi::tool
