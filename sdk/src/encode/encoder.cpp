#include "encode/encoder.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <variant>
#include <vector>

#include "base/text.hpp"
#include "encode/hash.hpp"
#include "encode/parse.hpp"
#include "encode/vocabulary.hpp"

namespace dpi {

namespace {

constexpr size_t kMaxText = 65536;
constexpr size_t kCaseBuffer = 4096;

/// A raw value on its way: text (into the caller's bytes or `buffer`), a number, an id, or decided.
struct Value {
  enum class Stage { kText, kNumber, kId, kMissing, kUnknown };
  Stage stage = Stage::kText;
  std::string_view text;
  double number = 0;
  int64_t id = 0;
  char buffer[kCaseBuffer];  // of lower, upper and number texts

  void set_text(std::string_view t) {
    text = t;
    stage = t.empty() ? Stage::kMissing : Stage::kText;
  }
  void set_id(int64_t v) {
    id = v;
    stage = Stage::kId;
  }
  void set_found(bool found, int64_t v) {
    id = v;
    stage = found ? Stage::kId : Stage::kUnknown;
  }
};

Status refuse(const Value& v, const char* what) {
  if (v.stage == Value::Stage::kText) return invalid_argument(in_quotes(v.text) + what);
  return invalid_argument(std::to_string(v.number) + what);
}

struct Trim {
  Status run(Value& v) const {
    constexpr std::string_view kSpace = " \t\n\r\v\f";
    const size_t first = v.text.find_first_not_of(kSpace);
    const size_t last = v.text.find_last_not_of(kSpace);
    v.set_text(first == std::string_view::npos ? std::string_view() : v.text.substr(first, last - first + 1));
    return {};
  }
};

struct Case {
  char from, to;  // first letter of each alphabet
  Status run(Value& v) const {
    if (v.text.size() > kCaseBuffer)
      return invalid_argument("a text of " + std::to_string(v.text.size()) + " bytes, at most 4096 here");
    for (size_t i = 0; i < v.text.size(); ++i) {
      const char c = v.text[i];
      v.buffer[i] = c >= from && c < from + 26 ? static_cast<char>(c - from + to) : c;
    }
    v.set_text({v.buffer, v.text.size()});
    return {};
  }
};

struct MissingTexts {
  std::vector<std::string> values;
  Status run(Value& v) const {
    const bool missing =
        std::any_of(values.begin(), values.end(), [&](const std::string& m) { return v.text == m; });
    if (missing) v.stage = Value::Stage::kMissing;
    return {};
  }
};

struct VocabString {
  std::shared_ptr<const StringVocabulary> map;
  VocabularyIds ids;
  Status run(Value& v) const {
    uint32_t entry = 0;
    const bool found = map->find(v.text, &entry);
    v.set_found(found, found ? ids.of(entry) : 0);
    return {};
  }
};

/// The number that a text with a point or an exponent writes, which is how files show an integer that was
/// held in a float; NaN where the text writes none.
Status read_float_text(std::string_view text, double* number) {
  const bool is_float = text.find_first_of(".eE") != std::string_view::npos && parse_decimal(text, number);
  if (is_float) return check_identity(*number);
  *number = std::nan("");
  return {};
}

struct VocabInt {
  std::shared_ptr<const IntVocabulary> map;
  VocabularyIds ids;
  Status run(Value& v) const {
    int64_t key = 0;
    uint32_t entry = 0;
    bool found = false, digits = false;
    if (v.stage == Value::Stage::kText) {
      digits = parse_integer(v.text, &key);
      if (!digits) DPI_RETURN_IF_ERROR(read_float_text(v.text, &v.number));
    }
    if (digits) {
      found = map->find(key, &entry);
    } else if (v.number == std::floor(v.number) && std::fabs(v.number) < 9.2e18) {
      found = map->find(static_cast<int64_t>(v.number), &entry);
    }
    v.set_found(found, found ? ids.of(entry) : 0);
    return {};
  }
};

struct VocabFloat {
  std::shared_ptr<const IntVocabulary> map;  // of bit patterns
  VocabularyIds ids;
  Status run(Value& v) const {
    uint32_t entry = 0;
    const bool found = map->find(std::bit_cast<int64_t>(v.number == 0 ? 0.0 : v.number), &entry);
    v.set_found(found, found ? ids.of(entry) : 0);
    return {};
  }
};

struct Hash {
  bool murmur;
  uint64_t seed, modulus;  // modulus 0: all 64 bits
  int64_t offset;
  Status run(Value& v) const {
    const uint64_t h = murmur ? murmur3_32(v.text, static_cast<uint32_t>(seed)) : xxh64(v.text, seed);
    v.set_id(modulus == 0 ? static_cast<int64_t>(h) : offset + static_cast<int64_t>(h % modulus));
    return {};
  }
};

struct ToId {
  Status run(Value& v) const {
    int64_t id = 0;
    if (v.stage == Value::Stage::kText) {
      if (!parse_integer(v.text, &id)) return refuse(v, " is not an integer");
    } else {
      if (v.number != std::floor(v.number) || !(std::fabs(v.number) < 9.2e18))
        return refuse(v, " is not an integer");
      id = static_cast<int64_t>(v.number);
    }
    v.set_id(id);
    return {};
  }
};

struct ToFloat {
  Status run(Value& v) const {
    if (!parse_decimal(v.text, &v.number)) return refuse(v, " is not a decimal number");
    v.stage = Value::Stage::kNumber;
    return {};
  }
};

/// clip, log1p, signed_log1p, standard, minmax: a function of one double.
struct Arithmetic {
  double (*f)(double x, const double* k);
  double k[4];
  bool log_domain;  // x <= -1 has no logarithm
  Status run(Value& v) const {
    if (log_domain && !(v.number > -1)) return refuse(v, " has no log1p");
    v.number = f(v.number, k);
    return {};
  }
};

struct Buckets {
  std::vector<double> boundaries;
  bool right;
  int64_t first_id;
  Status run(Value& v) const {
    const auto at = right ? std::lower_bound(boundaries.begin(), boundaries.end(), v.number)
                          : std::upper_bound(boundaries.begin(), boundaries.end(), v.number);
    v.set_id(first_id + (at - boundaries.begin()));
    return {};
  }
};

using Step = std::variant<Trim, Case, MissingTexts, VocabString, VocabInt, VocabFloat, Hash, ToId, ToFloat,
                          Arithmetic, Buckets>;

/// Does the step read text (so that a number has to become one)?
bool reads_text(const Step& s) {
  return std::holds_alternative<Trim>(s) || std::holds_alternative<Case>(s) ||
         std::holds_alternative<MissingTexts>(s) || std::holds_alternative<VocabString>(s) ||
         std::holds_alternative<Hash>(s) || std::holds_alternative<ToFloat>(s);
}

double clip(double x, const double* k) { return std::min(std::max(x, k[0]), k[1]); }
double log1p_step(double x, const double*) { return std::log1p(x); }
double signed_log1p(double x, const double*) { return std::copysign(std::log1p(std::fabs(x)), x); }
double standard(double x, const double* k) { return (x - k[0]) / k[1]; }
double minmax(double x, const double* k) { return (x - k[0]) / (k[1] - k[0]) * (k[3] - k[2]) + k[2]; }

/// One overload per step of a bundle.
struct Builder {
  VocabularySet& vocabularies;

  Result<Step> operator()(const step::Trim&) const { return Step(Trim{}); }
  Result<Step> operator()(const step::Lower&) const { return Step(Case{'A', 'a'}); }
  Result<Step> operator()(const step::Upper&) const { return Step(Case{'a', 'A'}); }
  Result<Step> operator()(const step::Missing& s) const { return Step(MissingTexts{s.values}); }
  Result<Step> operator()(const step::VocabString& s) const {
    DPI_ASSIGN_OR_RETURN(auto map, vocabularies.strings(s.bytes, s.offsets));
    DPI_ASSIGN_OR_RETURN(VocabularyIds ids, vocabularies.ids(s.ids, s.first_id));
    return Step(VocabString{std::move(map), std::move(ids)});
  }
  Result<Step> operator()(const step::VocabInt& s) const {
    DPI_ASSIGN_OR_RETURN(auto map, vocabularies.integers(s.keys));
    DPI_ASSIGN_OR_RETURN(VocabularyIds ids, vocabularies.ids(s.ids, s.first_id));
    return Step(VocabInt{std::move(map), std::move(ids)});
  }
  Result<Step> operator()(const step::VocabFloat& s) const {
    DPI_ASSIGN_OR_RETURN(auto map, vocabularies.integers(s.keys));
    DPI_ASSIGN_OR_RETURN(VocabularyIds ids, vocabularies.ids(s.ids, s.first_id));
    for (const int64_t key : map->keys()) {
      const auto x = std::bit_cast<double>(key);
      if (!std::isfinite(x) || (x == 0 && key != 0)) {
        return bad_model(s.keys + ": holds a key that is not finite or is -0");
      }
    }
    return Step(VocabFloat{std::move(map), std::move(ids)});
  }
  Result<Step> operator()(const step::Hash& s) const {
    return Step(Hash{s.murmur, static_cast<uint64_t>(s.seed), static_cast<uint64_t>(s.modulus), s.offset});
  }
  Result<Step> operator()(const step::ToId&) const { return Step(ToId{}); }
  Result<Step> operator()(const step::ToFloat&) const { return Step(ToFloat{}); }
  Result<Step> operator()(const step::Clip& s) const { return Step(Arithmetic{clip, {s.lo, s.hi}, false}); }
  Result<Step> operator()(const step::Log1p&) const { return Step(Arithmetic{log1p_step, {}, true}); }
  Result<Step> operator()(const step::SignedLog1p&) const {
    return Step(Arithmetic{signed_log1p, {}, false});
  }
  Result<Step> operator()(const step::Standard& s) const {
    return Step(Arithmetic{standard, {s.mean, s.std}, false});
  }
  Result<Step> operator()(const step::MinMax& s) const {
    return Step(Arithmetic{minmax, {s.min, s.max, s.lo, s.hi}, false});
  }
  Result<Step> operator()(const step::Buckets& s) const {
    return Step(Buckets{s.boundaries, s.right, s.first_id});
  }
};

}  // namespace

struct FeatureEncoder::Impl {
  FeatureSpec spec;
  std::vector<Step> steps;
  bool names = true;  // the value names something: no step reads how large it is

  Status run(Value& v) const;
  Status finish(const Value& v, EncodedValue* out) const;
};

Status FeatureEncoder::Impl::run(Value& v) const {
  for (const Step& step : steps) {
    if (v.stage == Value::Stage::kNumber && reads_text(step)) v.set_text(number_text(v.number, v.buffer));
    DPI_RETURN_IF_ERROR(std::visit([&](const auto& s) { return s.run(v); }, step));
    if (v.stage == Value::Stage::kMissing || v.stage == Value::Stage::kUnknown) return {};
  }
  return {};
}

Status FeatureEncoder::Impl::finish(const Value& v, EncodedValue* out) const {
  switch (v.stage) {
    case Value::Stage::kMissing:
      out->kind = spec.encoder.has_missing_element ? EncodedValue::Kind::kId : EncodedValue::Kind::kMissing;
      out->id = spec.encoder.missing_element;
      return {};
    case Value::Stage::kNumber: {
      out->kind = EncodedValue::Kind::kFloat;
      out->value = static_cast<float>(v.number);
      return std::isfinite(out->value) ? Status() : refuse(v, " is not finite in float32");
    }
    case Value::Stage::kId:
      out->kind = EncodedValue::Kind::kId;
      out->id = v.id;
      return {};
    case Value::Stage::kUnknown:
      out->unknown = true;
      break;
    case Value::Stage::kText:
      return internal_error("the encoder left a text");
  }
  if (spec.out_of_range == OutOfRange::kError) {
    return invalid_argument((v.text.empty() ? std::to_string(v.number) : in_quotes(v.text)) +
                            " is not in the vocabulary (feature rule out_of_range=error)");
  }
  out->kind = EncodedValue::Kind::kId;
  out->id = spec.out_of_range == OutOfRange::kOov ? spec.oov_id : spec.default_id;
  return {};
}

FeatureEncoder::FeatureEncoder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
FeatureEncoder::FeatureEncoder(FeatureEncoder&&) noexcept = default;
FeatureEncoder& FeatureEncoder::operator=(FeatureEncoder&&) noexcept = default;
FeatureEncoder::~FeatureEncoder() = default;

Result<FeatureEncoder> FeatureEncoder::build(const FeatureSpec& spec, VocabularySet& vocabularies) {
  auto impl = std::make_unique<Impl>();
  impl->spec = spec;
  const std::vector<EncoderStep>& steps = spec.encoder.steps;
  for (size_t i = 0; i < steps.size(); ++i) {
    auto step = std::visit(Builder{vocabularies}, steps[i]);
    if (!step.ok()) {
      return std::move(step).status().within("feature '" + spec.name + "', encoder step " +
                                             std::to_string(i) + " (" + name_of(steps[i]) + ")");
    }
    impl->steps.push_back(std::move(step).value());
    impl->names = impl->names && !std::holds_alternative<ToFloat>(impl->steps.back());
  }
  return FeatureEncoder(std::move(impl));
}

Status FeatureEncoder::encode_text(std::string_view raw, EncodedValue* out) const {
  *out = {};
  if (raw.size() > kMaxText)
    return invalid_argument("a text of " + std::to_string(raw.size()) + " bytes, at most 65536");
  Value v;
  v.set_text(raw);
  if (v.stage == Value::Stage::kText) DPI_RETURN_IF_ERROR(impl_->run(v));
  return impl_->finish(v, out);
}

Status FeatureEncoder::encode_number(double raw, EncodedValue* out) const {
  *out = {};
  Value v;
  v.number = raw;
  v.stage = std::isnan(raw) ? Value::Stage::kMissing : Value::Stage::kNumber;
  if (std::isinf(raw)) return invalid_argument("an infinite value");
  if (impl_->names) DPI_RETURN_IF_ERROR(check_identity(raw));
  // to_float reads text; a number already is what it would give.
  if (v.stage == Value::Stage::kNumber) DPI_RETURN_IF_ERROR(impl_->run(v));
  return impl_->finish(v, out);
}

BagElements FeatureEncoder::elements(std::string_view raw) const {
  const EncoderSpec& e = impl_->spec.encoder;
  return e.has_splitter ? BagElements(raw, e.splitter) : BagElements(raw);
}

}  // namespace dpi
