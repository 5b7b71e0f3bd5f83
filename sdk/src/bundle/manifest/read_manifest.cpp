// The top level of the manifest (FORMAT.md part 3), its tables, heads and golden rows.
#include <algorithm>
#include <cmath>
#include <map>

#include <dpi/kernels/narrow.hpp>
#include <dpi/kernels/row_decode.hpp>

#include "bundle/content_hash.hpp"
#include "bundle/manifest/json_lists.hpp"
#include "bundle/manifest/json_rewriter.hpp"
#include "bundle/manifest/link_keys.hpp"
#include "bundle/manifest/read_feature.hpp"
#include "bundle/manifest/read_op.hpp"
#include "bundle/manifest_read.hpp"

namespace dpi {
namespace {

constexpr size_t kMaxListed = 100'000;  // features, tables, ops
constexpr size_t kMaxHeads = 256;
constexpr size_t kVersionParts = 2;
constexpr int64_t kMaxDim = 65536;
constexpr int64_t kMaxGoldenRows = 65536;
constexpr int64_t kMaxColumns = 1 << 24;  // dense columns of all features

/// An object without objects and lists that mean something.
class FlatReader : public ObjectReader {
  JsonReader* member(std::string_view, bool) final { return nullptr; }
};

std::string default_data_path(const std::string& table) {
  std::string path = "/tables/";
  for (char c : table) path += (c == '/' || c == ' ' || c == '[' || c == ']' || c == ':') ? '_' : c;
  return path;
}

/// 64 lower-case hex digits.
bool good_digest(std::string_view text) {
  return text.size() == 2 * sizeof(ContentHash) &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// False for a value that `type` would round to infinity. Such a row is refused, as the exporter does.
bool holds(kernels::DType type, float v) {
  if (type == kernels::DType::kF16) return std::fabs(v) <= 65504;
  return type != kernels::DType::kBF16 || kernels::bf16_holds(v);
}

/// The same of a row that is not empty: one with an offset needs f16 to hold that and its scale.
bool holds_row(kernels::DType type, const std::vector<double>& row) {
  const kernels::RowForm& form = kernels::row_form(type);
  if (form.offset_bytes == 0)
    return std::all_of(row.begin(), row.end(), [&](double v) { return holds(type, static_cast<float>(v)); });
  const auto [least, largest] = std::minmax_element(row.begin(), row.end());
  const auto offset = static_cast<float>(*least);
  if (!kernels::half_holds(offset)) return false;
  const float begin = kernels::half_to_float(kernels::float_to_half(offset));
  const auto steps = static_cast<float>((1 << form.bits) - 1);
  return kernels::half_holds((static_cast<float>(*largest) - begin) / steps);
}

class TableReader final : public ObjectReader {
 public:
  void start() {
    ObjectReader::start();
    default_.start();
  }
  Result<TableSpec> take() {
    using kernels::DType;
    TableSpec t;
    JsonObject o(members(), "table");
    if (o.text("name", &t.name, kRequired)) o.rename("table " + in_quotes(t.name));
    if (o.flag("external", &t.external, kOptional) && !t.external) o.fail("external is false, expected true");
    o.integer("rows", 1, t.external ? kMaxExternalRows : kMaxTableRows, &t.rows,
              t.external ? kOptional : kRequired);
    o.integer("dim", 1, kMaxDim, &t.dim, kRequired);
    o.choice("dtype",
             {DType::kF32, DType::kF16, DType::kBF16, DType::kI8, DType::kI4, DType::kI2, DType::kFp8},
             &t.dtype, kRequired);
    o.text("keys", &t.keys, kOptional);
    if (t.external) {
      read_external(&o, &t);
    } else {
      if (!o.text("data", &t.data, kOptional)) t.data = default_data_path(t.name);
      const kernels::RowForm& form = kernels::row_form(t.dtype);
      if (form.scale_bytes > 0) o.text("scale", &t.scale, kRequired);
      if (form.offset_bytes > 0) o.text("offset", &t.offset, kRequired);
    }
    DPI_RETURN_IF_ERROR(o.finish());
    return t;
  }

 private:
  JsonReader* member(std::string_view key, bool is_object) override {
    return key == "default" && !is_object ? &default_ : nullptr;
  }

  void read_external(JsonObject* o, TableSpec* t) {
    if (o->text("digest", &t->digest, kOptional) && !good_digest(t->digest))
      o->fail("digest is " + in_quotes(t->digest) + ", expected 64 lower-case hex digits");
    if (!o->list("default", default_.size, kMaxDim, kOptional)) return;
    t->default_row = std::move(default_.values);
    const auto all = [t](auto is) { return std::all_of(t->default_row.begin(), t->default_row.end(), is); };
    const bool finite = all([](double v) { return std::isfinite(static_cast<float>(v)); });
    if (t->default_row.size() != static_cast<size_t>(t->dim) || !default_.all_fit || !finite)
      o->fail("default is no list of " + std::to_string(t->dim) + " finite floats");
    else if (!holds_row(t->dtype, t->default_row))
      o->fail("default has a value beyond the range of " + std::string(kernels::name_of(t->dtype)));
  }

  ValueList<double> default_{kMaxDim};
};

struct KeySetReader final : FlatReader {
  Result<KeySetSpec> take() {
    KeySetSpec s;
    bool external = false;
    JsonObject o(members(), "key set");
    if (o.text("name", &s.name, kRequired)) o.rename("key set " + in_quotes(s.name));
    if (o.flag("external", &external, kOptional) && !external) o.fail("external is false, expected true");
    o.integer("keys", 1, external ? kMaxExternalRows : kMaxTableRows - 1, &s.keys,
              external ? kOptional : kRequired);
    if (!external) o.text("data", &s.data, kRequired);
    DPI_RETURN_IF_ERROR(o.finish());
    if (!external && s.data.empty()) return bad_model("key set " + in_quotes(s.name) + ": data is empty");
    return s;
  }
};

struct HeadReader final : FlatReader {
  Result<HeadSpec> take() {
    HeadSpec h;
    JsonObject o(members(), "head");
    if (o.text("name", &h.name, kRequired)) o.rename("head " + in_quotes(h.name));
    o.text("value", &h.value, kRequired);
    o.text("logit", &h.logit, kOptional);
    o.text("activation", &h.activation, kOptional);
    DPI_RETURN_IF_ERROR(o.finish());
    return h;
  }
};

class GoldenReader final : public ObjectReader {
 public:
  Status take(const std::vector<FeatureSpec>& features, GoldenSpec* g) {
    JsonObject o(members(), "golden");
    o.integer("rows", 0, kMaxGoldenRows, &g->rows, kRequired);
    o.integer("shared_rows", 0, kMaxGoldenRows, &g->shared_rows, kOptional);
    if (o.number("tolerance", &g->tolerance, kOptional) && g->tolerance < 0) o.fail("tolerance is negative");
    if (o.list("raw", raw_.size, kMaxListed, kOptional)) {
      g->raw_rows = g->rows;
      o.integer("raw_rows", 0, g->rows, &g->raw_rows, kOptional);
      if (!raw_.all_fit) o.fail("raw holds something other than names");
      g->raw = std::move(raw_.values);
      const std::string wrong = wrong_raw(features, g->raw);
      if (!wrong.empty()) o.fail("raw: " + wrong);
    }
    return o.finish_open();
  }

 private:
  JsonReader* member(std::string_view key, bool is_object) override {
    return key == "raw" && !is_object ? &raw_ : nullptr;
  }

  /// An error about the names of features with raw cells; empty = none.
  static std::string wrong_raw(const std::vector<FeatureSpec>& features,
                               const std::vector<std::string>& raw) {
    std::map<std::string_view, bool> left;  // the features that may have raw cells, true once they are named
    for (const FeatureSpec& f : features) {
      if (f.kind != FeatureKind::kDense) left[f.name] = false;
    }
    for (const std::string& name : raw) {
      const auto it = left.find(name);
      if (it == left.end()) return in_quotes(name) + " is no categorical, sequence or numeric feature";
      if (it->second) return in_quotes(name) + " is named twice";
      it->second = true;
    }
    return {};
  }

  ValueList<std::string> raw_{kMaxListed};
};

Status check_columns(const std::vector<FeatureSpec>& features) {
  int64_t columns = 0;
  for (const FeatureSpec& f : features) columns += f.is_slot() ? 0 : f.dim;
  if (columns <= kMaxColumns) return {};
  return bad_model("features have " + std::to_string(columns) + " dense columns, at most 2^24 are allowed");
}

class ManifestReader final : public ObjectReader {
 public:
  Result<Manifest> take(uint32_t minor);

 private:
  JsonReader* member(std::string_view key, bool is_object) override;
  Status check_version(JsonObject* o, uint32_t minor, Manifest* m);

  ValueList<int64_t> version_{kVersionParts};
  JsonRewriter provenance_;
  NamedList<FeatureSpec, FeatureReader> features_{"feature", kMaxListed};
  NamedList<TableSpec, TableReader> tables_{"table", kMaxListed};
  NamedList<KeySetSpec, KeySetReader> key_sets_{"key set", kMaxListed};
  NamedList<OpSpec, OpReader> ops_{"op", kMaxListed};
  NamedList<HeadSpec, HeadReader> heads_{"head", kMaxHeads};
  GoldenReader golden_;
};

JsonReader* ManifestReader::member(std::string_view key, bool is_object) {
  if (is_object) {
    if (key == "golden") return &golden_;
    if (key != "provenance") return nullptr;
    provenance_.start(true);
    return &provenance_;
  }
  if (key == "version") return &version_;
  if (key == "features") return &features_;
  if (key == "tables") return &tables_;
  if (key == "key_sets") return &key_sets_;
  if (key == "ops") return &ops_;
  return key == "heads" ? &heads_ : nullptr;
}

Status ManifestReader::check_version(JsonObject* o, uint32_t minor, Manifest* m) {
  std::string format;
  if (o->text("format", &format, kRequired) && format != "dpi-bundle") {
    o->fail("format is " + in_quotes(format) + ", expected 'dpi-bundle'");
  }
  if (!o->list("version", version_.size, kVersionParts, kRequired)) return {};
  if (version_.size != kVersionParts || !version_.all_fit) return bad_model("version is not [major, minor]");
  const int64_t major = version_.values[0];
  m->version_minor = version_.values[1];
  if (major != 2) return unsupported("version " + std::to_string(major) + ", this reader knows 2.x");
  if (m->version_minor != minor) {
    return bad_model("version is 2." + std::to_string(m->version_minor) + ", the user block says 2." +
                     std::to_string(minor));
  }
  return {};
}

/// Types of rows that came with 2.2.
Status check_types(const Manifest& m) {
  constexpr int64_t kSince = 2;
  for (const TableSpec& t : m.tables) {
    if (!kernels::row_form(t.dtype).whole || m.version_minor >= kSince) continue;
    return bad_model("table " + in_quotes(t.name) + ": dtype " + kernels::name_of(t.dtype) +
                     " needs format 2.2, the file says 2." + std::to_string(m.version_minor));
  }
  return {};
}

/// In the order in which a person would look: the top level, then each list, whatever the text's order was.
Result<Manifest> ManifestReader::take(uint32_t minor) {
  Manifest m;
  JsonObject o(members(), "");
  DPI_RETURN_IF_ERROR(check_version(&o, minor, &m));
  if (o.text("name", &m.name, kRequired) && m.name.size() > 1000) o.fail("name is longer than 1000 bytes");
  const bool has_provenance = o.object("provenance", kOptional);
  o.list("features", features_.size, kMaxListed, kRequired);
  o.list("tables", tables_.size, kMaxListed, kOptional);
  o.list("key_sets", key_sets_.size, kMaxListed, kOptional);
  o.list("ops", ops_.size, kMaxListed, kRequired);
  o.list("heads", heads_.size, kMaxHeads, kRequired);
  const bool has_golden = o.object("golden", kOptional);
  if (o.text("hot_keys", &m.hot_keys, kOptional) && m.hot_keys.empty()) o.fail("hot_keys is empty");
  DPI_RETURN_IF_ERROR(o.finish_open());
  DPI_RETURN_IF_ERROR(std::move(features_.status));
  DPI_RETURN_IF_ERROR(std::move(tables_.status));
  DPI_RETURN_IF_ERROR(std::move(key_sets_.status));
  DPI_RETURN_IF_ERROR(std::move(ops_.status));
  DPI_RETURN_IF_ERROR(std::move(heads_.status));
  m.features = std::move(features_.values);
  m.tables = std::move(tables_.values);
  m.key_sets = std::move(key_sets_.values);
  m.ops = std::move(ops_.values);
  m.heads = std::move(heads_.values);
  if (m.heads.empty()) return bad_model("heads is empty, expected at least one");
  DPI_RETURN_IF_ERROR(check_columns(m.features));
  DPI_RETURN_IF_ERROR(check_types(m));
  DPI_RETURN_IF_ERROR(link_keys(&m));
  if (has_golden) DPI_RETURN_IF_ERROR(golden_.take(m.features, &m.golden));
  if (has_provenance) m.provenance = provenance_.take();
  return m;
}

}  // namespace

Result<Manifest> read_manifest(std::string_view text, uint32_t minor) {
  DPI_ASSIGN_OR_RETURN(const JsonForm form, check_json(text));
  if (form.kind != JsonKind::kObject) return bad_model("is a JSON " + form.type + ", expected an object");
  ManifestReader reader;
  read_json(text, &reader);
  return reader.take(minor);
}

}  // namespace dpi
