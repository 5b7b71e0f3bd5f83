#include "fixture.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace dpi::test {
namespace {

using nlohmann::json;

FeatureSpec feature_of(const json& j) {
  const std::map<std::string, FeatureKind> kinds = {{"categorical", FeatureKind::kCategorical},
                                                    {"sequence", FeatureKind::kSequence},
                                                    {"numeric", FeatureKind::kNumeric},
                                                    {"dense", FeatureKind::kDense}};
  FeatureSpec f;
  f.name = j.at("name");
  f.kind = kinds.at(j.at("kind"));
  f.space = j.value("space", "item") == "shared" ? RowSpace::kShared : RowSpace::kItem;
  f.vocab_size = j.value("vocab_size", 0);
  f.dim = j.value("dim", 1);
  f.max_len = j.value("max_len", 0);
  f.pad_id = j.value("pad_id", 0);
  f.pad_side = j.value("pad_side", "post") == "pre" ? kernels::PadSide::kPre : kernels::PadSide::kPost;
  f.weighted = j.value("weighted", false);
  return f;
}

AttrValue attr_of(const json& j) {
  if (j.is_boolean()) return j.get<bool>();
  if (j.is_number_unsigned() && j.get<uint64_t>() > INT64_MAX) return j.get<uint64_t>();
  if (j.is_number_integer()) return j.get<int64_t>();
  if (j.is_number()) return j.get<double>();
  if (j.is_string()) return j.get<std::string>();
  const auto is_integer = [](const json& v) { return v.is_number_integer(); };
  if (j.is_array() && std::all_of(j.begin(), j.end(), is_integer)) return j.get<std::vector<int64_t>>();
  return j.is_null() ? AttrValue(nullptr) : AttrValue(OtherJson{j.dump()});
}

OpSpec op_of(const json& j) {
  OpSpec op;
  op.name = j.at("name");
  op.op = j.at("op");
  op.version = j.value("v", 1);
  op.module = j.value("module", "");
  op.inputs = j.value("in", std::vector<std::string>{});
  const json attrs = j.value("attrs", json::object());
  for (const auto& [key, value] : attrs.items()) op.attrs[key] = attr_of(value);
  op.params = j.value("params", std::map<std::string, std::string>{});
  if (op.op == "Input" && attrs.contains("feature") && attrs["feature"].is_string())
    op.feature = attrs["feature"];
  return op;
}

}  // namespace

Manifest manifest_of(const std::string& text) {
  const json j = json::parse(text);
  Manifest m;
  m.name = j.value("name", "test");
  m.version_minor = 2;  // every op
  for (const json& f : j.value("features", json::array())) m.features.push_back(feature_of(f));
  for (const json& t : j.value("tables", json::array())) {
    TableSpec spec;
    spec.name = t.at("name");
    spec.rows = t.at("rows");
    spec.dim = t.at("dim");
    m.tables.push_back(std::move(spec));
  }
  for (const json& op : j.value("ops", json::array())) m.ops.push_back(op_of(op));
  for (const json& h : j.value("heads", json::array())) {
    m.heads.push_back({h.at("name"), h.at("value"), h.value("logit", ""), h.value("activation", "")});
  }
  return m;
}

}  // namespace dpi::test
