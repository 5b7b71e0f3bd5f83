#include "bundle/delta/same_schema.hpp"

#include <algorithm>
#include <string>

#include "base/text.hpp"

namespace dpi {
namespace {

constexpr const char* kNewBundle = "; that takes a new bundle";

Status changed(const std::string& what) {
  return bad_model(what + " is not what it is in the base, and a delta cannot change it" + kNewBundle);
}

Status check_feature(const FeatureSpec& base, const FeatureSpec& next) {
  if (next.vocab_size < base.vocab_size)
    return bad_model("feature " + in_quotes(next.name) + ": vocab_size falls from " +
                     std::to_string(base.vocab_size) + " to " + std::to_string(next.vocab_size) + kNewBundle);
  FeatureSpec same = next;
  same.vocab_size = base.vocab_size;
  same.absent_row = base.absent_row;  // follow from the number of keys
  same.pad_row = base.pad_row;
  return same == base ? Status() : changed("feature " + in_quotes(next.name));
}

Status check_table(const TableSpec& base, const TableSpec& next) {
  const std::string who = "table " + in_quotes(next.name);
  if (!next.external && next.keys.empty() && next.rows < base.rows)
    return bad_model(who + ": loses rows, " + std::to_string(base.rows) + " to " + std::to_string(next.rows) +
                     kNewBundle);
  TableSpec same = next;
  same.rows = base.rows;
  if (next.external) {
    same.digest = base.digest;
    same.default_row = base.default_row;
  }
  return same == base ? Status() : changed(who);
}

Status check_key_set(const KeySetSpec& base, const KeySetSpec& next) {
  const bool same = base.name == next.name && base.data == next.data && base.pads == next.pads;
  return same ? Status() : changed("key set " + in_quotes(next.name));
}

/// The same number, names and order.
template <class Spec>
Status check_list(const char* what, const std::vector<Spec>& base, const std::vector<Spec>& next,
                  Status (*check)(const Spec&, const Spec&)) {
  if (base.size() != next.size()) return changed("the number of " + std::string(what) + "s");
  for (size_t i = 0; i < base.size(); ++i) {
    if (base[i].name != next[i].name)
      return changed(std::string(what) + " " + std::to_string(i) + " (" + in_quotes(next[i].name) + ")");
    DPI_RETURN_IF_ERROR(check(base[i], next[i]));
  }
  return {};
}

Status check_op(const OpSpec& base, const OpSpec& next) {
  return base == next ? Status() : changed("op " + in_quotes(next.name));
}

Status check_head(const HeadSpec& base, const HeadSpec& next) {
  return base == next ? Status() : changed("head " + in_quotes(next.name));
}

Status check_params(const Bundle& base, const Bundle& next) {
  for (const DataSetInfo& info : next.data_sets()) {
    if (!info.path.starts_with("/params/")) continue;
    const DataSetInfo* before = base.find(info.path);
    if (before == nullptr) return changed("parameter " + info.path + ", which is new,");
    if (before->shape != info.shape || before->type != info.type)
      return changed("the shape of " + info.path + ", " + shape_text(info.shape) + " after " +
                     shape_text(before->shape) + ",");
  }
  return {};
}

}  // namespace

Status check_same_schema(const Bundle& base_bundle, const Bundle& next_bundle) {
  const Manifest &base = base_bundle.manifest(), &next = next_bundle.manifest();
  if (base.name != next.name) return changed("name " + in_quotes(next.name));
  if (base.version_minor != next.version_minor) return changed("the format's version");
  DPI_RETURN_IF_ERROR(check_list("feature", base.features, next.features, check_feature));
  DPI_RETURN_IF_ERROR(check_list("table", base.tables, next.tables, check_table));
  DPI_RETURN_IF_ERROR(check_list("key set", base.key_sets, next.key_sets, check_key_set));
  DPI_RETURN_IF_ERROR(check_list("op", base.ops, next.ops, check_op));
  DPI_RETURN_IF_ERROR(check_list("head", base.heads, next.heads, check_head));
  return check_params(base_bundle, next_bundle);
}

}  // namespace dpi
