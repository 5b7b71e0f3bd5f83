// Encoder steps of the manifest, FORMAT.md part 5.
#include <algorithm>
#include <map>

#include "base/text.hpp"
#include "bundle/json_object.hpp"
#include "bundle/manifest_read.hpp"

namespace dpi {
namespace {

constexpr size_t kMaxSteps = 1000;
constexpr size_t kMaxBoundaries = 1'000'000;
constexpr auto kRequired = JsonObject::kRequired;
constexpr auto kOptional = JsonObject::kOptional;

/// What a value is between steps. A raw value is text until a step makes it something else.
enum class Stage { kText, kNumber, kId };

struct StepRule {
  Stage from;  // kNumber: text does not do
  Stage to;
  bool takes_number_too;  // text steps always see a number as text; these want it as it is
  void (*check)(JsonObject* o);
};

void check_data_path(JsonObject* o, const char* key, JsonObject::Need need) {
  std::string path;
  if (o->text(key, &path, need) && path.rfind("/encoders/", 0) != 0) {
    o->fail(std::string(key) + " is " + in_quotes(path) + ", expected a data set under /encoders");
  }
}

void check_nothing(JsonObject*) {}

void check_missing(JsonObject* o) {
  const nlohmann::json* values = o->array("values", 10000, kRequired);
  if (values == nullptr) return;
  const bool texts =
      std::all_of(values->begin(), values->end(), [](const nlohmann::json& v) { return v.is_string(); });
  if (!texts) o->fail("values holds something other than strings");
}

void check_vocab_ids(JsonObject* o) {
  check_data_path(o, "ids", kOptional);
  int64_t first = 0;
  o->integer("first_id", 0, INT32_MAX, &first, kOptional);
}

void check_vocab_string(JsonObject* o) {
  check_data_path(o, "bytes", kRequired);
  check_data_path(o, "offsets", kRequired);
  check_vocab_ids(o);
}

void check_vocab_int(JsonObject* o) {
  check_data_path(o, "keys", kRequired);
  check_vocab_ids(o);
}

void check_hash(JsonObject* o) {
  std::string algorithm;
  int64_t ignored = 0;
  o->text("algorithm", &algorithm, kRequired);
  if (o->ok() && algorithm != "xxh64" && algorithm != "murmur3_32") {
    o->fail(Code::kUnsupported, "algorithm " + in_quotes(algorithm) + " is not known");
  }
  o->integer("seed", 0, algorithm == "murmur3_32" ? int64_t{UINT32_MAX} : INT64_MAX, &ignored, kOptional);
  o->integer("modulus", 1, INT32_MAX, &ignored, kRequired);
  o->integer("offset", 0, INT32_MAX, &ignored, kOptional);
}

void check_clip(JsonObject* o) {
  double lo = 0;
  double hi = 0;
  if (o->number("lo", &lo, kRequired) && o->number("hi", &hi, kRequired) && lo > hi)
    o->fail("lo is larger than hi");
}

void check_standard(JsonObject* o) {
  double mean = 0;
  double std = 1;
  o->number("mean", &mean, kRequired);
  if (o->number("std", &std, kRequired) && std == 0) o->fail("std is 0");
}

void check_minmax(JsonObject* o) {
  double ignored = 0;
  double a = 0;
  double b = 1;
  if (o->number("min", &a, kRequired) && o->number("max", &b, kRequired) && a == b)
    o->fail("min and max are equal");
  o->number("lo", &ignored, kOptional);
  o->number("hi", &ignored, kOptional);
}

void check_buckets(JsonObject* o) {
  bool right = false;
  int64_t first = 0;
  o->flag("right", &right, kOptional);
  o->integer("first_id", 0, INT32_MAX, &first, kOptional);
  const nlohmann::json* list = o->array("boundaries", kMaxBoundaries, kRequired);
  if (list == nullptr) return;
  double before = 0;
  for (size_t i = 0; i < list->size(); ++i) {
    const nlohmann::json& b = (*list)[i];
    if (!b.is_number() || (i > 0 && b.get<double>() < before)) {
      o->fail("boundaries must be numbers that never decrease (entry " + std::to_string(i) + ")");
      return;
    }
    before = b.get<double>();
  }
}

const std::map<std::string, StepRule, std::less<>>& step_rules() {
  static const std::map<std::string, StepRule, std::less<>> kRules = {
      {"trim", {Stage::kText, Stage::kText, false, check_nothing}},
      {"lower", {Stage::kText, Stage::kText, false, check_nothing}},
      {"upper", {Stage::kText, Stage::kText, false, check_nothing}},
      {"missing", {Stage::kText, Stage::kText, false, check_missing}},
      {"vocab_string", {Stage::kText, Stage::kId, false, check_vocab_string}},
      {"vocab_int", {Stage::kText, Stage::kId, true, check_vocab_int}},
      {"hash", {Stage::kText, Stage::kId, false, check_hash}},
      {"to_id", {Stage::kText, Stage::kId, true, check_nothing}},
      {"to_float", {Stage::kText, Stage::kNumber, false, check_nothing}},
      {"clip", {Stage::kNumber, Stage::kNumber, false, check_clip}},
      {"log1p", {Stage::kNumber, Stage::kNumber, false, check_nothing}},
      {"signed_log1p", {Stage::kNumber, Stage::kNumber, false, check_nothing}},
      {"standard", {Stage::kNumber, Stage::kNumber, false, check_standard}},
      {"minmax", {Stage::kNumber, Stage::kNumber, false, check_minmax}},
      {"buckets", {Stage::kNumber, Stage::kId, false, check_buckets}},
  };
  return kRules;
}

const char* stage_name(Stage s) {
  static constexpr const char* kNames[] = {"text", "a number", "an id"};
  return kNames[static_cast<int>(s)];
}

Result<EncoderStep> read_step(const nlohmann::json& json, const std::string& where, Stage* stage) {
  EncoderStep step;
  JsonObject o(json, where);
  o.text("op", &step.op, kRequired);
  if (!o.ok()) return o.finish_open();
  const auto rule = step_rules().find(step.op);
  if (rule == step_rules().end())
    return unsupported(where + ": step " + in_quotes(step.op) + " is not known");
  o.rename(where + " (" + step.op + ")");
  const StepRule& r = rule->second;
  if (*stage != r.from && !(r.takes_number_too && *stage == Stage::kNumber)) {
    o.fail(std::string("takes ") + stage_name(r.from) + ", the step before gives " + stage_name(*stage));
  }
  r.check(&o);
  DPI_RETURN_IF_ERROR(o.finish());
  *stage = r.to;
  step.args = json;
  return step;
}

}  // namespace

Result<std::vector<EncoderStep>> read_encoder(const nlohmann::json& json, bool gives_ids,
                                              const std::string& where) {
  JsonObject o(json, where);
  const nlohmann::json* steps = o.array("steps", kMaxSteps, kRequired);
  DPI_RETURN_IF_ERROR(o.finish());
  std::vector<EncoderStep> out;
  Stage stage = Stage::kText;
  for (size_t i = 0; i < steps->size(); ++i) {
    DPI_ASSIGN_OR_RETURN(EncoderStep step,
                         read_step((*steps)[i], where + " step " + std::to_string(i), &stage));
    out.push_back(std::move(step));
  }
  const Stage wanted = gives_ids ? Stage::kId : Stage::kNumber;
  if (!out.empty() && stage != wanted) {
    return bad_model(where + ": its last step gives " + stage_name(stage) + ", the feature needs " +
                     stage_name(wanted));
  }
  return out;
}

}  // namespace dpi
