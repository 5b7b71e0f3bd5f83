#include "bundle/manifest_read.hpp"

#include <set>

#include "base/text.hpp"
#include "bundle/json_object.hpp"

namespace dpi {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxListed = 100'000;  // features, tables, ops
constexpr size_t kMaxHeads = 256;
constexpr size_t kMaxInputs = 65536;
constexpr int kMaxDepth = 64;
constexpr int64_t kMaxRows = INT32_MAX - 1;
constexpr int64_t kMaxDim = 65536;
constexpr int64_t kMaxGoldenRows = 65536;
constexpr int64_t kMaxColumns = 1 << 24;  // dense columns of all features
constexpr auto kRequired = JsonObject::kRequired;
constexpr auto kOptional = JsonObject::kOptional;

/// Parses, and refuses what nlohmann lets pass: a key given twice (the last would win silently) and endless
/// nesting.
Result<Json> parse(std::string_view text) {
  std::vector<std::set<std::string>> keys;
  std::string twice;
  bool too_deep = false;
  const Json::parser_callback_t callback = [&](int depth, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start) {
      too_deep = too_deep || depth > kMaxDepth;
      if (event == Json::parse_event_t::object_start) keys.emplace_back();
    } else if (event == Json::parse_event_t::object_end && !keys.empty()) {
      keys.pop_back();
    } else if (event == Json::parse_event_t::key && !keys.empty()) {
      const auto& key = value.get_ref<const std::string&>();
      if (!keys.back().insert(key).second && twice.empty()) twice = key;
    }
    return !too_deep;
  };
  Json json = Json::parse(text.begin(), text.end(), callback, /*allow_exceptions=*/false);
  if (too_deep) return bad_model("is nested deeper than " + std::to_string(kMaxDepth) + " levels");
  if (json.is_discarded()) return bad_model("is not valid JSON in UTF-8");
  if (!twice.empty()) return bad_model("key " + in_quotes(twice) + " is given twice in one object");
  return json;
}

Status check_name_of(const char* what, const std::string& name) {
  if (good_name(name)) return {};
  return bad_model(std::string(what) + " name " + in_quotes(name) +
                   " is empty, too long or has characters outside A-Za-z0-9_.-/ []:");
}

std::string default_data_path(const std::string& table) {
  std::string path = "/tables/";
  for (char c : table) path += (c == '/' || c == ' ' || c == '[' || c == ']' || c == ':') ? '_' : c;
  return path;
}

Result<TableSpec> read_table(const Json& json) {
  TableSpec t;
  JsonObject o(json, "table");
  if (o.text("name", &t.name, kRequired)) o.rename("table " + in_quotes(t.name));
  o.integer("rows", 1, kMaxRows, &t.rows, kRequired);
  o.integer("dim", 1, kMaxDim, &t.dim, kRequired);
  o.choice<kernels::DType>("dtype",
                           {{"f32", kernels::DType::kF32},
                            {"f16", kernels::DType::kF16},
                            {"bf16", kernels::DType::kBF16},
                            {"i8", kernels::DType::kI8}},
                           &t.dtype, kRequired);
  if (!o.text("data", &t.data, kOptional)) t.data = default_data_path(t.name);
  if (t.dtype == kernels::DType::kI8) o.text("scale", &t.scale, kRequired);
  DPI_RETURN_IF_ERROR(o.finish());
  return t;
}

Status read_inputs(const Json& list, const std::string& where, OpSpec* op) {
  for (const Json& entry : list) {
    if (!entry.is_string()) return bad_model(where + ": in holds something other than names");
    op->inputs.push_back(entry.get_ref<const std::string&>());
  }
  return {};
}

Status read_params(const Json& object, const std::string& where, OpSpec* op) {
  for (const auto& entry : object.items()) {
    if (!entry.value().is_string())
      return bad_model(where + ": params " + in_quotes(entry.key()) + " is not a name");
    op->params[entry.key()] = entry.value().get_ref<const std::string&>();
  }
  return {};
}

Result<OpSpec> read_op(const Json& json) {
  OpSpec op;
  JsonObject o(json, "op");
  o.text("name", &op.name, kRequired);
  o.text("op", &op.op, kRequired);
  const std::string where = "op " + in_quotes(op.name) + " (" + op.op + ")";
  if (o.ok()) o.rename(where);
  o.integer("v", 0, INT32_MAX, &op.version, kOptional);
  o.text("module", &op.module, kOptional);
  const Json* inputs = o.array("in", kMaxInputs, kOptional);
  const Json* attrs = o.object("attrs", kOptional);
  const Json* params = o.object("params", kOptional);
  DPI_RETURN_IF_ERROR(o.finish());
  if (inputs != nullptr) DPI_RETURN_IF_ERROR(read_inputs(*inputs, where, &op));
  if (params != nullptr) DPI_RETURN_IF_ERROR(read_params(*params, where, &op));
  op.attrs = attrs != nullptr ? *attrs : Json::object();
  if (op.op == "Input") {
    const auto feature = op.attrs.find("feature");
    if (feature == op.attrs.end() || !feature->is_string())
      return bad_model(where + ": attribute feature is missing");
    op.feature = feature->get_ref<const std::string&>();
  }
  return op;
}

Result<HeadSpec> read_head(const Json& json) {
  HeadSpec h;
  JsonObject o(json, "head");
  if (o.text("name", &h.name, kRequired)) o.rename("head " + in_quotes(h.name));
  o.text("value", &h.value, kRequired);
  o.text("logit", &h.logit, kOptional);
  o.text("activation", &h.activation, kOptional);
  DPI_RETURN_IF_ERROR(o.finish());
  return h;
}

Status read_golden(const Json& json, GoldenSpec* g) {
  JsonObject o(json, "golden");
  o.integer("rows", 0, kMaxGoldenRows, &g->rows, kRequired);
  o.integer("shared_rows", 0, kMaxGoldenRows, &g->shared_rows, kOptional);
  if (o.number("tolerance", &g->tolerance, kOptional) && g->tolerance < 0) o.fail("tolerance is negative");
  return o.finish_open();
}

/// Reads each entry of a list whose entries have unique names.
template <class T, class Read>
Status read_list(const Json* list, const char* what, Read read, std::vector<T>* out) {
  std::set<std::string> names;
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    Result<T> entry = read((*list)[i]);
    if (!entry.ok()) return std::move(entry).status().within("entry " + std::to_string(i));
    DPI_RETURN_IF_ERROR(check_name_of(what, entry->name));
    if (!names.insert(entry->name).second)
      return bad_model(std::string(what) + " " + in_quotes(entry->name) + " is defined twice");
    out->push_back(std::move(entry).value());
  }
  return {};
}

Status check_version(JsonObject* o, uint32_t minor, Manifest* m) {
  std::string format;
  if (o->text("format", &format, kRequired) && format != "dpi-bundle") {
    o->fail("format is " + in_quotes(format) + ", expected 'dpi-bundle'");
  }
  const Json* version = o->array("version", 2, kRequired);
  if (version == nullptr) return {};
  int64_t major = 0;
  if (version->size() != 2 || !json_int64((*version)[0], &major) ||
      !json_int64((*version)[1], &m->version_minor)) {
    return bad_model("version is not [major, minor]");
  }
  if (major != 1) return unsupported("version " + std::to_string(major) + ", this reader knows 1.x");
  if (m->version_minor != minor) {
    return bad_model("version is 1." + std::to_string(m->version_minor) + ", the user block says 1." +
                     std::to_string(minor));
  }
  return {};
}

Status check_columns(const std::vector<FeatureSpec>& features) {
  int64_t columns = 0;
  for (const FeatureSpec& f : features) columns += f.is_slot() ? 0 : f.dim;
  if (columns <= kMaxColumns) return {};
  return bad_model("features have " + std::to_string(columns) + " dense columns, at most 2^24 are allowed");
}

}  // namespace

Result<Manifest> read_manifest(std::string_view text, uint32_t minor) {
  DPI_ASSIGN_OR_RETURN(const Json json, parse(text));
  Manifest m;
  JsonObject o(json, "");
  DPI_RETURN_IF_ERROR(check_version(&o, minor, &m));
  if (o.text("name", &m.name, kRequired) && m.name.size() > 1000) o.fail("name is longer than 1000 bytes");
  if (const Json* provenance = o.object("provenance", kOptional)) m.provenance = *provenance;
  const Json* features = o.array("features", kMaxListed, kRequired);
  const Json* tables = o.array("tables", kMaxListed, kOptional);
  const Json* ops = o.array("ops", kMaxListed, kRequired);
  const Json* heads = o.array("heads", kMaxHeads, kRequired);
  const Json* golden = o.object("golden", kOptional);
  DPI_RETURN_IF_ERROR(o.finish_open());
  DPI_RETURN_IF_ERROR(read_list(features, "feature", read_feature, &m.features));
  DPI_RETURN_IF_ERROR(read_list(tables, "table", read_table, &m.tables));
  DPI_RETURN_IF_ERROR(read_list(ops, "op", read_op, &m.ops));
  DPI_RETURN_IF_ERROR(read_list(heads, "head", read_head, &m.heads));
  if (m.heads.empty()) return bad_model("heads is empty, expected at least one");
  DPI_RETURN_IF_ERROR(check_columns(m.features));
  if (golden != nullptr) DPI_RETURN_IF_ERROR(read_golden(*golden, &m.golden));
  return m;
}

}  // namespace dpi
