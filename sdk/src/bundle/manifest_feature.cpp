// Features of the manifest, FORMAT.md part 4.
#include "base/text.hpp"
#include "bundle/json_object.hpp"
#include "bundle/manifest_read.hpp"

namespace dpi {
namespace {

constexpr int64_t kMaxRows = INT32_MAX - 1;
constexpr int64_t kMaxLen = 65536;
constexpr auto kRequired = JsonObject::kRequired;
constexpr auto kOptional = JsonObject::kOptional;

void read_ids(JsonObject* o, FeatureSpec* f) {
  if (!o->integer("vocab_size", 1, kMaxRows, &f->vocab_size, kRequired)) return;
  o->choice<OutOfRange>(
      "out_of_range",
      {{"error", OutOfRange::kError}, {"oov", OutOfRange::kOov}, {"default", OutOfRange::kDefault}},
      &f->out_of_range, kOptional);
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
      o->number("default", &f->default_value, kOptional);
      break;
  }
}

}  // namespace

Result<FeatureSpec> read_feature(const nlohmann::json& json) {
  FeatureSpec f;
  JsonObject o(json, "feature");
  o.text("name", &f.name, kRequired);
  if (o.ok() && !good_name(f.name))
    o.fail("name " + in_quotes(f.name) + " is empty, too long or has characters outside A-Za-z0-9_.-/ []:");
  o.rename("feature " + in_quotes(f.name));
  o.choice<FeatureKind>("kind",
                        {{"categorical", FeatureKind::kCategorical},
                         {"sequence", FeatureKind::kSequence},
                         {"numeric", FeatureKind::kNumeric},
                         {"dense", FeatureKind::kDense}},
                        &f.kind, kRequired);
  if (!o.ok()) return o.finish_open();
  o.choice<RowSpace>("space", {{"item", RowSpace::kItem}, {"shared", RowSpace::kShared}}, &f.space,
                     kOptional);
  o.choice<Missing>("missing",
                    {{"error", Missing::kError}, {"pad", Missing::kPad}, {"default", Missing::kDefault}},
                    &f.missing, kOptional);
  read_by_kind(&o, &f);
  const nlohmann::json* encoder = o.object("encoder", kOptional);
  if (const nlohmann::json* stats = o.object("stats", kOptional)) f.stats = *stats;
  DPI_RETURN_IF_ERROR(o.finish());
  if (encoder != nullptr) {
    DPI_ASSIGN_OR_RETURN(f.encoder,
                         read_encoder(*encoder, f.is_slot(), "feature " + in_quotes(f.name) + ", encoder"));
  }
  return f;
}

}  // namespace dpi
