#include "bundle/manifest/read_op.hpp"

namespace dpi {

void AttrListReader::start() {
  integers_.clear();
  is_text_ = false;
}

void AttrListReader::become_text() {
  if (is_text_) return;
  is_text_ = true;
  text_.start(/*is_object=*/false);
  for (const int64_t v : integers_) text_.scalar(v);
}

void AttrListReader::scalar(JsonScalar&& value) {
  const auto* v = std::get_if<int64_t>(&value);
  if (v != nullptr && !is_text_) {
    integers_.push_back(*v);
    return;
  }
  become_text();
  text_.scalar(std::move(value));
}

JsonReader* AttrListReader::nested(bool is_object) {
  become_text();
  return text_.nested(is_object);
}

AttrValue AttrListReader::take() {
  if (is_text_) return OtherJson{text_.take()};
  return std::move(integers_);
}

void AttrsReader::scalar(JsonScalar&& value) {
  attrs[std::move(key_)] = std::visit([](auto&& v) { return AttrValue(std::move(v)); }, std::move(value));
}

JsonReader* AttrsReader::nested(bool is_object) {
  in_object_ = is_object;
  if (is_object) {
    object_.start(true);
    return &object_;
  }
  list_.start();
  return &list_;
}

void AttrsReader::nested_end() {
  attrs[std::move(key_)] = in_object_ ? AttrValue(OtherJson{object_.take()}) : list_.take();
}

void ParamNamesReader::start() {
  params.clear();
  wrong.reset();
}

void ParamNamesReader::refuse() {
  if (!wrong || key_ < *wrong) wrong = std::move(key_);
}

void ParamNamesReader::scalar(JsonScalar&& value) {
  std::string name;
  if (take_scalar(std::move(value), &name)) {
    params[std::move(key_)] = std::move(name);
  } else {
    refuse();
  }
}

JsonReader* ParamNamesReader::nested(bool) {
  refuse();
  return &skip_;
}

void OpReader::start() {
  ObjectReader::start();
  inputs_.start();
  attrs_.start();
  params_.start();
}

JsonReader* OpReader::member(std::string_view key, bool is_object) {
  if (key == "in" && !is_object) return &inputs_;
  if (key == "attrs" && is_object) return &attrs_;
  return key == "params" && is_object ? &params_ : nullptr;
}

Result<OpSpec> OpReader::take() {
  OpSpec op;
  JsonObject o(members(), "op");
  o.text("name", &op.name, kRequired);
  o.text("op", &op.op, kRequired);
  const std::string where = "op " + in_quotes(op.name) + " (" + op.op + ")";
  if (o.ok()) o.rename(where);
  o.integer("v", 0, INT32_MAX, &op.version, kOptional);
  o.text("module", &op.module, kOptional);
  o.list("in", inputs_.size, kMaxInputs, kOptional);
  o.object("attrs", kOptional);
  o.object("params", kOptional);
  DPI_RETURN_IF_ERROR(o.finish());
  if (!inputs_.all_fit) return bad_model(where + ": in holds something other than names");
  if (params_.wrong) return bad_model(where + ": params " + in_quotes(*params_.wrong) + " is not a name");
  op.inputs = std::move(inputs_.values);
  op.params = std::move(params_.params);
  op.attrs = std::move(attrs_.attrs);
  if (op.op == "Input") {
    const auto feature = op.attrs.find("feature");
    const auto* name = feature != op.attrs.end() ? std::get_if<std::string>(&feature->second) : nullptr;
    if (name == nullptr) return bad_model(where + ": attribute feature is missing");
    op.feature = *name;
  }
  return op;
}

}  // namespace dpi
