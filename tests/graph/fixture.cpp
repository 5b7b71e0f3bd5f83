#include "fixture.hpp"

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

OpSpec op_of(const json& j) {
  OpSpec op;
  op.name = j.at("name");
  op.op = j.at("op");
  op.version = j.value("v", 1);
  op.module = j.value("module", "");
  op.inputs = j.value("in", std::vector<std::string>{});
  op.attrs = j.value("attrs", json::object());
  op.params = j.value("params", std::map<std::string, std::string>{});
  if (op.op == "Input" && op.attrs.contains("feature") && op.attrs["feature"].is_string())
    op.feature = op.attrs["feature"];
  return op;
}

}  // namespace

Manifest manifest_of(const std::string& text) {
  const json j = json::parse(text);
  Manifest m;
  m.name = j.value("name", "test");
  for (const json& f : j.value("features", json::array())) m.features.push_back(feature_of(f));
  for (const json& t : j.value("tables", json::array())) {
    m.tables.push_back({t.at("name"), t.at("rows"), t.at("dim"), kernels::DType::kF32, "", ""});
  }
  for (const json& op : j.value("ops", json::array())) m.ops.push_back(op_of(op));
  for (const json& h : j.value("heads", json::array())) {
    m.heads.push_back({h.at("name"), h.at("value"), h.value("logit", ""), h.value("activation", "")});
  }
  return m;
}

}  // namespace dpi::test
