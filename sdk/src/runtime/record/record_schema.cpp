#include "runtime/record/record_schema.hpp"

#include <xxhash.h>

#include "base/json_text.hpp"
#include "base/text.hpp"

namespace dpi {

namespace {

/// Appends what a step computes to a text that is only hashed. Entries of vocabularies stand in it by the
/// hash of their data set.
class StepText {
 public:
  explicit StepText(const Bundle& bundle) : bundle_(bundle) {}

  void operator()(const step::Trim&) {}
  void operator()(const step::Lower&) {}
  void operator()(const step::Upper&) {}
  void operator()(const step::Missing& s) {
    for (const std::string& v : s.values) add(v);
  }
  void operator()(const step::VocabString& s) {
    data(s.bytes);
    data(s.offsets);
    data(s.ids);
    add(s.first_id);
  }
  void operator()(const step::VocabInt& s) { vocabulary(s); }
  void operator()(const step::VocabFloat& s) { vocabulary(s); }
  void operator()(const step::Hash& s) {
    add(int64_t{s.murmur});
    add(s.seed);
    add(s.modulus);
    add(s.offset);
  }
  void operator()(const step::ToId&) {}
  void operator()(const step::ToFloat&) {}
  void operator()(const step::Clip& s) {
    add(s.lo);
    add(s.hi);
  }
  void operator()(const step::Log1p&) {}
  void operator()(const step::SignedLog1p&) {}
  void operator()(const step::Standard& s) {
    add(s.mean);
    add(s.std);
  }
  void operator()(const step::MinMax& s) {
    add(s.min);
    add(s.max);
    add(s.lo);
    add(s.hi);
  }
  void operator()(const step::Buckets& s) {
    for (const double b : s.boundaries) add(b);
    add(int64_t{s.right});
    add(s.first_id);
  }

  void add(std::string_view text) {
    append_json_string(&text_, text);
    text_ += ',';
  }
  void add(int64_t v) { text_ += std::to_string(v) + ","; }
  void add(double v) {
    append_json_number(&text_, v);
    text_ += ',';
  }
  const std::string& text() const { return text_; }

 private:
  template <class Step>
  void vocabulary(const Step& s) {
    data(s.keys);
    data(s.ids);
    add(s.first_id);
  }
  void data(const std::string& path) {
    const DataSetInfo* info = path.empty() ? nullptr : bundle_.find(path);
    add(info != nullptr ? hex_bytes(info->extent.hash) : std::string());
  }

  const Bundle& bundle_;
  std::string text_;
};

/// 16 hex digits; empty without an encoder.
std::string encoder_hash(const EncoderSpec& encoder, const Bundle& bundle) {
  if (encoder.empty()) return {};
  StepText text(bundle);
  for (const EncoderStep& s : encoder.steps) {
    text.add(std::string_view(name_of(s)));
    std::visit(text, s);
  }
  if (encoder.has_splitter) text.add(encoder.splitter);
  if (encoder.has_missing_element) text.add(encoder.missing_element);
  return hex_text(record_schema_digest(text.text())).substr(2);
}

}  // namespace

uint64_t record_schema_digest(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

std::string record_schema(const Bundle& bundle) {
  JsonWriter w;
  w.begin_object();
  w.begin_list("features");
  for (const FeatureSpec& f : bundle.manifest().features) {
    w.begin_object();
    w.field("name", f.name);
    w.field("kind", name_of(f.kind));
    w.field("shared", f.space == RowSpace::kShared);
    w.field("dim", f.dim);
    w.field("vocab_size", f.vocab_size);
    w.field("keys", f.is_keyed());
    w.field("weighted", f.weighted);
    w.field("encoder", encoder_hash(f.encoder, bundle));
    w.end_object();
  }
  w.end_list();
  w.begin_list("heads");
  for (const HeadSpec& head : bundle.manifest().heads) w.value(head.name);
  w.end_list();
  w.end_object();
  return w.take();
}

}  // namespace dpi
