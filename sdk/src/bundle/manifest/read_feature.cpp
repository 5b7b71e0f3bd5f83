#include "bundle/manifest/read_feature.hpp"

#include <cmath>
#include <limits>

namespace dpi {
namespace {

constexpr int64_t kMaxLen = 65536;

/// Ids are keys: any int64, so that nothing of a vocabulary applies.
void read_keyed(JsonObject* o, FeatureSpec* f) {
  int64_t stands_for_none = 1;
  o->integer("vocab_size", 1, 1, &stands_for_none, kOptional);
  f->has_pad_id =
      o->integer("pad_id", INT64_MIN, INT64_MAX, &f->pad_id,
                 f->missing == Missing::kPad && f->kind == FeatureKind::kCategorical ? kRequired : kOptional);
  o->integer("default_id", INT64_MIN, INT64_MAX, &f->default_id,
             f->missing == Missing::kDefault ? kRequired : kOptional);
  f->has_missing_id = o->integer("missing_id", INT64_MIN, INT64_MAX, &f->missing_id, kOptional);
}

void read_ids(JsonObject* o, FeatureSpec* f) {
  if (o->text("keys", &f->keys, kOptional)) {
    if (!good_name(f->keys)) o->fail("keys is " + in_quotes(f->keys) + ", which is no name");
    read_keyed(o, f);
    return;
  }
  if (!o->integer("vocab_size", 1, kMaxTableRows, &f->vocab_size, kRequired)) return;
  o->choice("out_of_range", {OutOfRange::kError, OutOfRange::kOov, OutOfRange::kDefault}, &f->out_of_range,
            kOptional);
  const int64_t last = f->vocab_size - 1;
  o->integer("pad_id", 0, last, &f->pad_id, kOptional);
  o->integer("oov_id", 0, last, &f->oov_id, f->out_of_range == OutOfRange::kOov ? kRequired : kOptional);
  const bool uses_default = f->out_of_range == OutOfRange::kDefault || f->missing == Missing::kDefault;
  o->integer("default_id", 0, last, &f->default_id, uses_default ? kRequired : kOptional);
  f->has_missing_id = o->integer("missing_id", INT64_MIN, INT64_MAX, &f->missing_id, kOptional);
}

void read_sequence(JsonObject* o, FeatureSpec* f) {
  o->integer("max_len", 0, kMaxLen, &f->max_len, kOptional);
  o->choice<bool>("keep", {{"first", false}, {"last", true}}, &f->keep_last, kOptional);
  o->choice<kernels::PadSide>("pad_side",
                              {{"post", kernels::PadSide::kPost}, {"pre", kernels::PadSide::kPre}},
                              &f->pad_side, kOptional);
  o->flag("weighted", &f->weighted, kOptional);
}

void read_by_kind(JsonObject* o, FeatureSpec* f) {
  switch (f->kind) {
    case FeatureKind::kSequence:
      read_sequence(o, f);
      [[fallthrough]];
    case FeatureKind::kCategorical:
      read_ids(o, f);
      break;
    case FeatureKind::kDense:
      o->integer("dim", 1, 65536, &f->dim, kRequired);
      [[fallthrough]];
    case FeatureKind::kNumeric:
      if (o->number("default", &f->default_value, kOptional) &&
          std::fabs(f->default_value) > std::numeric_limits<float>::max())
        o->fail("default is beyond what a float32 holds");
      break;
  }
}

}  // namespace

JsonReader* FeatureReader::member(std::string_view key, bool is_object) {
  if (key != "encoder" || !is_object) return nullptr;
  encoder_.start();
  return &encoder_;
}

Result<FeatureSpec> FeatureReader::take() {
  FeatureSpec f;
  JsonObject o(members(), "feature");
  o.text("name", &f.name, kRequired);
  if (o.ok() && !good_name(f.name))
    o.fail("name " + in_quotes(f.name) + " is empty, too long or has characters that names may not have");
  o.rename("feature " + in_quotes(f.name));
  o.choice("kind",
           {FeatureKind::kCategorical, FeatureKind::kSequence, FeatureKind::kNumeric, FeatureKind::kDense},
           &f.kind, kRequired);
  if (!o.ok()) return o.finish_open();
  o.choice("space", {RowSpace::kItem, RowSpace::kShared}, &f.space, kOptional);
  o.choice("missing", {Missing::kError, Missing::kPad, Missing::kDefault}, &f.missing, kOptional);
  read_by_kind(&o, &f);
  const bool has_encoder = o.object("encoder", kOptional);
  o.object("stats", kOptional);  // nothing here uses it
  DPI_RETURN_IF_ERROR(o.finish());
  if (has_encoder) {
    DPI_ASSIGN_OR_RETURN(f.encoder, encoder_.take(f, "feature " + in_quotes(f.name) + ", encoder"));
  }
  return f;
}

}  // namespace dpi
