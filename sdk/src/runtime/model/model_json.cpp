// What a model tells about itself, as JSON. Strings are checked UTF-8 by the bundle reader.
#include <dpi/kernels/op.hpp>
#include <nlohmann/json.hpp>

#include "runtime/model/model.hpp"

namespace dpi {

namespace {

using Json = nlohmann::ordered_json;

const char* kind_name(FeatureKind k) {
  switch (k) {
    case FeatureKind::kCategorical:
      return "categorical";
    case FeatureKind::kSequence:
      return "sequence";
    case FeatureKind::kNumeric:
      return "numeric";
    case FeatureKind::kDense:
      return "dense";
  }
  return "?";
}

const char* rule_name(OutOfRange r) {
  return r == OutOfRange::kError ? "error" : r == OutOfRange::kOov ? "oov" : "default";
}

const char* rule_name(Missing r) {
  return r == Missing::kError ? "error" : r == Missing::kPad ? "pad" : "default";
}

const char* dtype_name(kernels::DType t) {
  switch (t) {
    case kernels::DType::kF32:
      return "f32";
    case kernels::DType::kF16:
      return "f16";
    case kernels::DType::kBF16:
      return "bf16";
    case kernels::DType::kI8:
      return "i8";
  }
  return "?";
}

Json feature_json(const ResolveSchema::Feature& f, size_t index) {
  Json j;
  j["index"] = index;
  j["name"] = f.spec.name;
  j["kind"] = kind_name(f.spec.kind);
  j["space"] = f.shared ? "shared" : "item";
  j["missing"] = rule_name(f.spec.missing);
  j["encoder"] = !f.spec.encoder.empty();
  if (!f.spec.is_slot()) {
    j["column"] = f.column;
    j["part_column"] = f.part_column;
    j["dim"] = f.spec.dim;
    j["default"] = f.spec.default_value;
    return j;
  }
  j["slot"] = f.slot;
  j["part_slot"] = f.part_slot;
  j["vocab_size"] = f.spec.vocab_size;
  j["out_of_range"] = rule_name(f.spec.out_of_range);
  j["pad_id"] = f.spec.pad_id;
  if (f.spec.out_of_range == OutOfRange::kOov) j["oov_id"] = f.spec.oov_id;
  if (f.spec.out_of_range == OutOfRange::kDefault || f.spec.missing == Missing::kDefault) {
    j["default_id"] = f.spec.default_id;
  }
  if (f.spec.has_missing_id) j["missing_id"] = f.spec.missing_id;
  if (f.spec.kind == FeatureKind::kSequence) {
    j["max_len"] = f.spec.max_len;
    j["keep"] = f.spec.keep_last ? "last" : "first";
    j["weighted"] = f.spec.weighted;
  }
  return j;
}

}  // namespace

std::string Model::schema_json() const {
  Json j;
  j["name"] = manifest_.name;
  j["features"] = Json::array();
  const ResolveSchema& schema = engine_->schema();
  for (size_t i = 0; i < schema.features.size(); ++i)
    j["features"].push_back(feature_json(schema.features[i], i));
  const BatchColumns& l = schema.columns;
  j["slots"] = l.n_slots;
  j["dense_columns"] = l.n_columns;
  j["item"] = {{"slots", l.n_item_slots}, {"dense_columns", l.n_item_columns}};
  j["shared"] = {{"slots", l.n_shared_slots}, {"dense_columns", l.n_shared_columns}};
  j["heads"] = Json::array();
  for (const HeadSpec& h : manifest_.heads) {
    j["heads"].push_back({{"name", h.name}, {"activation", h.activation}, {"has_logit", !h.logit.empty()}});
  }
  j["provenance"] = manifest_.provenance;
  return j.dump();
}

std::string Model::info_json() const {
  const Engine& e = *engine_;
  Json j;
  j["source"] = source_;
  j["content_digest"] = std::to_string(content_digest_);
  j["device"] = {
      {"backend", e.api().name}, {"name", e.caps().device_name}, {"requested", e.options().device}};
  j["device"]["note"] = e.device_note();
  j["options"] = Json::parse(options_json(e.options()), nullptr, false);
  j["memory"] = {{"tables_host_bytes", e.forecast().host_bytes},
                 {"tables_device_bytes", e.forecast().device_bytes},
                 {"weight_bytes", e.weight_bytes()},
                 {"flight_bytes", e.memory().flight},
                 {"in_flight", e.memory().flights},
                 {"contexts", e.memory().contexts}};
  j["graphs"] = {{"on", e.uses_graphs()}, {"why_off", e.graphs_note()}};
  j["small_batch"] = {{"max_rows", e.small_batch() != nullptr ? e.small_batch_max_rows() : 0},
                      {"report", e.small_batch_report()}};
  j["tables"] = Json::array();
  for (size_t t = 0; t < e.plan().tables.size(); ++t) {
    const PlanTable& table = e.plan().tables[t];
    const uint64_t bytes = t < e.forecast().table_bytes.size() ? e.forecast().table_bytes[t] : 0;
    j["tables"].push_back({{"name", table.name},
                           {"rows", table.rows},
                           {"dim", table.dim},
                           {"dtype", dtype_name(table.dtype)},
                           {"derived", table.source < 0},
                           {"bytes", bytes}});
  }
  j["plan"] = {{"streams", e.plan().n_streams}, {"events", e.plan().n_events}, {"notes", e.plan().notes}};
  j["plan"]["ops"] = Json::array();
  for (size_t i = 0; i < e.plan().ops.size(); ++i) {
    const PlanOp& op = e.plan().ops[i];
    j["plan"]["ops"].push_back({{"name", op.name},
                                {"kind", kernels::op_name(op.kind)},
                                {"stream", op.stream},
                                {"branch", op.branch},
                                {"implementation", e.op_report(i)}});
  }
  return j.dump();
}

std::string Model::counters_json() const {
  const CounterSums sums = counts();
  Json j;
  j["calls"] = sums.calls;
  j["rows"] = sums.rows;
  j["errors"] = Json::object();
  for (size_t c = 1; c < CounterSums::kCodes; ++c) {
    if (sums.errors[c] != 0) j["errors"][std::to_string(c)] = sums.errors[c];
  }
  j["features"] = Json::array();
  for (size_t i = 0; i < manifest_.features.size(); ++i) {
    const FeatureCounters& f = sums.by_feature[i];
    j["features"].push_back({{"name", manifest_.features[i].name},
                             {"missing", f.missing},
                             {"out_of_range", f.out_of_range},
                             {"cut", f.cut}});
  }
  return j.dump();
}

}  // namespace dpi
