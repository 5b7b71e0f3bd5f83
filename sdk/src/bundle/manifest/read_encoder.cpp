#include "bundle/manifest/read_encoder.hpp"

namespace dpi {
namespace {

void data_path(JsonObject* o, const char* key, JsonObject::Need need, std::string* path) {
  if (o->text(key, path, need) && path->rfind("/encoders/", 0) != 0) {
    o->fail(std::string(key) + " is " + in_quotes(*path) + ", expected a data set under /encoders");
  }
}

/// A step without members.
template <class Step>
EncoderStep plain(JsonObject*, StepReader*) {
  return Step{};
}

EncoderStep missing(JsonObject* o, StepReader* r) {
  if (!o->list("values", r->texts.size, StepReader::kMaxTexts, kRequired)) return step::Missing{};
  if (!r->texts.all_fit) o->fail("values holds something other than strings");
  return step::Missing{std::move(r->texts.values)};
}

EncoderStep vocab_string(JsonObject* o, StepReader*) {
  step::VocabString s;
  data_path(o, "bytes", kRequired, &s.bytes);
  data_path(o, "offsets", kRequired, &s.offsets);
  data_path(o, "ids", kOptional, &s.ids);
  o->integer("first_id", 0, INT32_MAX, &s.first_id, kOptional);
  return s;
}

/// vocab_int, vocab_float
template <class Step>
EncoderStep vocab_numbers(JsonObject* o, StepReader*) {
  Step s;
  data_path(o, "keys", kRequired, &s.keys);
  data_path(o, "ids", kOptional, &s.ids);
  o->integer("first_id", 0, INT32_MAX, &s.first_id, kOptional);
  return s;
}

EncoderStep hash(JsonObject* o, StepReader*) {
  step::Hash s;
  std::string algorithm;
  o->text("algorithm", &algorithm, kRequired);
  s.murmur = algorithm == "murmur3_32";
  if (o->ok() && algorithm != "xxh64" && !s.murmur) {
    o->fail(Code::kUnsupported, "algorithm " + in_quotes(algorithm) + " is not known");
  }
  o->integer("seed", 0, s.murmur ? int64_t{UINT32_MAX} : INT64_MAX, &s.seed, kOptional);
  const bool stated = o->integer("modulus", 1, INT32_MAX, &s.modulus, s.murmur ? kRequired : kOptional);
  if (!stated) s.modulus = 0;  // all 64 bits: EncoderReader::take knows whether the feature can have them
  if (o->integer("offset", 0, INT32_MAX, &s.offset, kOptional) && !stated)
    o->fail("modulus is missing, without which there is no offset");
  return s;
}

EncoderStep clip(JsonObject* o, StepReader*) {
  step::Clip s;
  if (o->number("lo", &s.lo, kRequired) && o->number("hi", &s.hi, kRequired) && s.lo > s.hi)
    o->fail("lo is larger than hi");
  return s;
}

EncoderStep standard(JsonObject* o, StepReader*) {
  step::Standard s;
  o->number("mean", &s.mean, kRequired);
  if (o->number("std", &s.std, kRequired) && s.std == 0) o->fail("std is 0");
  return s;
}

EncoderStep minmax(JsonObject* o, StepReader*) {
  step::MinMax s;
  if (o->number("min", &s.min, kRequired) && o->number("max", &s.max, kRequired) && s.min == s.max)
    o->fail("min and max are equal");
  o->number("lo", &s.lo, kOptional);
  o->number("hi", &s.hi, kOptional);
  return s;
}

EncoderStep buckets(JsonObject* o, StepReader* r) {
  step::Buckets s;
  o->flag("right", &s.right, kOptional);
  o->integer("first_id", 0, INT32_MAX, &s.first_id, kOptional);
  if (!o->list("boundaries", r->numbers.size, StepReader::kMaxNumbers, kRequired)) return s;
  s.boundaries = std::move(r->numbers.values);
  size_t sound = s.boundaries.empty() ? 0 : 1;  // entries that are numbers and not below the one before
  while (sound < s.boundaries.size() && !(s.boundaries[sound] < s.boundaries[sound - 1])) ++sound;
  if (sound < r->numbers.size)
    o->fail("boundaries must be numbers that never decrease (entry " + std::to_string(sound) + ")");
  return s;
}

struct StepRule {
  const char* name;
  EncoderStage from;  // kNumber: text does not do
  EncoderStage to;
  bool takes_number_too;  // text steps always see a number as text; these want it as it is
  EncoderStep (*read)(JsonObject* o, StepReader* reader);
};

const StepRule* find_rule(const std::string& name) {
  constexpr auto kText = EncoderStage::kText, kNumber = EncoderStage::kNumber, kId = EncoderStage::kId;
  static constexpr StepRule kRules[] = {
      {step::Trim::kName, kText, kText, false, plain<step::Trim>},
      {step::Lower::kName, kText, kText, false, plain<step::Lower>},
      {step::Upper::kName, kText, kText, false, plain<step::Upper>},
      {step::Missing::kName, kText, kText, false, missing},
      {step::VocabString::kName, kText, kId, false, vocab_string},
      {step::VocabInt::kName, kText, kId, true, vocab_numbers<step::VocabInt>},
      {step::VocabFloat::kName, kNumber, kId, false, vocab_numbers<step::VocabFloat>},
      {step::Hash::kName, kText, kId, false, hash},
      {step::ToId::kName, kText, kId, true, plain<step::ToId>},
      {step::ToFloat::kName, kText, kNumber, false, plain<step::ToFloat>},
      {step::Clip::kName, kNumber, kNumber, false, clip},
      {step::Log1p::kName, kNumber, kNumber, false, plain<step::Log1p>},
      {step::SignedLog1p::kName, kNumber, kNumber, false, plain<step::SignedLog1p>},
      {step::Standard::kName, kNumber, kNumber, false, standard},
      {step::MinMax::kName, kNumber, kNumber, false, minmax},
      {step::Buckets::kName, kNumber, kId, false, buckets},
  };
  for (const StepRule& rule : kRules) {
    if (name == rule.name) return &rule;
  }
  return nullptr;
}

const char* stage_name(EncoderStage s) {
  static constexpr const char* kNames[] = {"text", "a number", "an id"};
  return kNames[static_cast<int>(s)];
}

}  // namespace

void StepReader::start() {
  ObjectReader::start();
  texts.start();
  numbers.start();
}

JsonReader* StepReader::member(std::string_view key, bool is_object) {
  if (is_object) return nullptr;
  if (key == "values") return &texts;
  return key == "boundaries" ? &numbers : nullptr;
}

Result<EncoderStep> StepReader::take(const std::string& where, EncoderStage* stage) {
  JsonObject o(members(), where);
  std::string op;
  o.text("op", &op, kRequired);
  if (!o.ok()) return o.finish_open();
  const StepRule* rule = find_rule(op);
  if (rule == nullptr) return unsupported(where + ": step " + in_quotes(op) + " is not known");
  o.rename(where + " (" + op + ")");
  if (*stage != rule->from && !(rule->takes_number_too && *stage == EncoderStage::kNumber)) {
    o.fail(std::string("takes ") + stage_name(rule->from) + ", the step before gives " + stage_name(*stage));
  }
  EncoderStep step = rule->read(&o, this);
  DPI_RETURN_IF_ERROR(o.finish());
  *stage = rule->to;
  return step;
}

void StepListReader::start() {
  steps.clear();
  size = 0;
  stage = EncoderStage::kText;
  status = Status();
}

bool StepListReader::begin_entry() {
  ++size;
  return status.ok() && size <= kMaxSteps;
}

void StepListReader::scalar(JsonScalar&& value) {
  if (begin_entry()) status = bad_model(place() + ": is a JSON " + type_name(value) + ", expected an object");
}

JsonReader* StepListReader::nested(bool is_object) {
  const bool wanted = begin_entry();
  in_step_ = wanted && is_object;
  if (in_step_) {
    step_.start();
    return &step_;
  }
  if (wanted) status = bad_model(place() + ": is a JSON array, expected an object");
  return &skip_;
}

void StepListReader::nested_end() {
  if (!in_step_) return;
  in_step_ = false;
  Result<EncoderStep> step = step_.take(place(), &stage);
  if (step.ok()) {
    steps.push_back(std::move(step).value());
  } else {
    status = std::move(step).status();
  }
}

void EncoderReader::start() {
  ObjectReader::start();
  steps_.start();
}

JsonReader* EncoderReader::member(std::string_view key, bool is_object) {
  return key == "steps" && !is_object ? &steps_ : nullptr;
}

/// Checks that the last step gives a key where one is needed: an integer as it is, or a hash.
Status EncoderReader::check_keys(const FeatureSpec& feature, const std::string& where) const {
  if (steps_.steps.empty()) return {};
  const EncoderStep& last = steps_.steps.back();
  const auto* hash = std::get_if<step::Hash>(&last);
  if (feature.is_keyed() && hash == nullptr && !std::holds_alternative<step::ToId>(last)) {
    return bad_model(where + ": its last step is " + name_of(last) +
                     ", a feature of keys needs to_id or hash");
  }
  if (!feature.is_keyed() && hash != nullptr && hash->modulus == 0)
    return bad_model(where + " (hash): modulus is missing, which only a feature of keys may leave out");
  return {};
}

Result<EncoderSpec> EncoderReader::take(const FeatureSpec& feature, const std::string& where) {
  EncoderSpec spec;
  JsonObject o(members(), where);
  o.list("steps", steps_.size, StepListReader::kMaxSteps, kRequired);
  spec.has_splitter = o.text("splitter", &spec.splitter, kOptional);
  const bool keyed = feature.is_keyed();
  spec.has_missing_element =
      o.integer("missing_element", keyed ? INT64_MIN : 0, keyed ? INT64_MAX : feature.vocab_size - 1,
                &spec.missing_element, kOptional);
  if ((spec.has_splitter || spec.has_missing_element) &&
      (feature.kind != FeatureKind::kSequence || steps_.size == 0)) {
    o.fail("splitter and missing_element are for sequences with steps");
  }
  if (spec.has_splitter && feature.weighted) o.fail("a splitter cannot be given for a weighted feature");
  DPI_RETURN_IF_ERROR(o.finish());
  if (!steps_.status.ok()) return Status(steps_.status.code(), where + steps_.status.message());
  const EncoderStage wanted = feature.is_slot() ? EncoderStage::kId : EncoderStage::kNumber;
  if (!steps_.steps.empty() && steps_.stage != wanted) {
    return bad_model(where + ": its last step gives " + stage_name(steps_.stage) + ", the feature needs " +
                     stage_name(wanted));
  }
  DPI_RETURN_IF_ERROR(check_keys(feature, where));
  spec.steps = std::move(steps_.steps);
  return spec;
}

}  // namespace dpi
