// Are the data sets what the manifest says? Tables, scales, parameters' types, vocabularies, golden rows.
// Parameter shapes belong to the ops and are checked by the graph.
#include <algorithm>
#include <map>
#include <set>

#include "base/text.hpp"
#include "bundle/hdf5_profile.hpp"
#include "bundle/manifest_read.hpp"

namespace dpi {
namespace {

using Type = DataSetInfo::Type;

constexpr int64_t kMaxVocabulary = (int64_t{1} << 31) - 2;
// A backend keeps each op's weights in an order of its own, so a parameter counts once for each op that names
// it.
constexpr uint64_t kMaxNamedBytes = 256u << 20, kMaxTimesNamed = 64;

class Checker {
 public:
  Checker(const Manifest& manifest, const std::vector<DataSetInfo>& list) : manifest_(manifest), list_(list) {
    for (const DataSetInfo& info : list)
      if (info.path.starts_with("/params/")) param_bytes_ += info.extent.length;
  }

  Status run() {
    for (const KeySetSpec& s : manifest_.key_sets) DPI_RETURN_IF_ERROR(key_set(s));
    for (const TableSpec& t : manifest_.tables) DPI_RETURN_IF_ERROR(table(t));
    if (!manifest_.hot_keys.empty()) DPI_RETURN_IF_ERROR(hot_keys(manifest_.hot_keys));
    for (const OpSpec& op : manifest_.ops) DPI_RETURN_IF_ERROR(params(op));
    for (const FeatureSpec& f : manifest_.features) {
      for (const EncoderStep& step : f.encoder.steps) DPI_RETURN_IF_ERROR(vocabulary(f, step));
    }
    return manifest_.golden.rows > 0 ? golden() : Status();
  }

 private:
  /// The data set at `path` has this type and shape; -1 in the shape stands for any extent.
  Status expect(const std::string& path, Type type, const std::vector<int64_t>& shape,
                const char* says = "the manifest says") {
    const DataSetInfo* info = find_data_set(list_, path);
    if (info == nullptr) return bad_model(path + ": is missing");
    bool same = info->type == type && info->shape.size() == shape.size();
    for (size_t i = 0; same && i < shape.size(); ++i) same = shape[i] < 0 || info->shape[i] == shape[i];
    if (same) return {};
    return bad_model(path + ": " + says + " " + expected_text(type, shape) + ", the data set is " +
                     shape_text(info->shape) + " " + type_name(info->type));
  }

  static std::string expected_text(Type type, const std::vector<int64_t>& shape) {
    std::string text;
    for (const int64_t d : shape)
      text += (text.empty() ? "" : " x ") + (d < 0 ? std::string("any") : std::to_string(d));
    return text + " " + type_name(type);
  }

  /// Runs before tables, so that a table that names the same data is reported.
  Status key_set(const KeySetSpec& s) {
    if (s.external()) return {};
    const std::string who = "key set " + in_quotes(s.name);
    if (!s.data.starts_with("/tables/"))
      return bad_model(who + ": " + in_quotes(s.data) + " is not a data set under /tables");
    if (!table_data_.insert(s.data).second)
      return bad_model(s.data + ": " + who + " names it, and another one does too");
    return expect(s.data, Type::kI64, {s.keys});
  }

  Status table(const TableSpec& t) {
    if (t.external) return {};
    for (const std::string* path : {&t.data, &t.scale, &t.offset}) {
      if (!path->empty() && !path->starts_with("/tables/")) {
        return bad_model("table " + in_quotes(t.name) + ": " + in_quotes(*path) +
                         " is not a data set under /tables");
      }
      if (!path->empty() && !table_data_.insert(*path).second)
        return bad_model(*path + ": table " + in_quotes(t.name) + " names it, and another table does too");
    }
    const kernels::RowForm& form = kernels::row_form(t.dtype);
    DPI_RETURN_IF_ERROR(expect(t.data, storage_type(t.dtype), {t.rows, storage_columns(t.dtype, t.dim)}));
    if (form.scale_bytes > 0) DPI_RETURN_IF_ERROR(expect(t.scale, scalar_type(form.scale_bytes), {t.rows}));
    return form.offset_bytes > 0 ? expect(t.offset, scalar_type(form.offset_bytes), {t.rows}) : Status();
  }

  /// Checks the data set of a hot-key list. Its reader checks the content (store/hot_keys/hot_keys.hpp).
  Status hot_keys(const std::string& path) {
    if (!path.starts_with("/tables/"))
      return bad_model("hot_keys: " + in_quotes(path) + " is not a data set under /tables");
    if (!table_data_.insert(path).second)
      return bad_model(path + ": hot_keys names it, and a table or key set does too");
    return expect(path, Type::kU8, {-1}, "a hot-key list is");
  }

  Status params(const OpSpec& op) {
    for (const auto& [role, name] : op.params) {
      const DataSetInfo* info = find_data_set(list_, "/params/" + name);
      const std::string where =
          "op " + in_quotes(op.name) + ", param " + in_quotes(role) + ": /params/" + name;
      if (info == nullptr) return bad_model(where + " is missing");
      if (info->type != Type::kF32)
        return bad_model(where + " is " + type_name(info->type) + ", expected f32");
      named_bytes_ += info->extent.length;
      if (named_bytes_ > kMaxNamedBytes && named_bytes_ / kMaxTimesNamed > param_bytes_)
        return bad_model(where + ": the ops so far name parameters of " + std::to_string(named_bytes_) +
                         " bytes in all, each of them over and over; the bundle has " +
                         std::to_string(param_bytes_) + " bytes of parameters");
    }
    return {};
  }

  Status vocabulary(const FeatureSpec& f, const EncoderStep& step) {
    if (const auto* texts = std::get_if<step::VocabString>(&step)) {
      DPI_RETURN_IF_ERROR(expect(texts->offsets, Type::kU64, {-1}, "a vocabulary needs"));
      const int64_t n = find_data_set(list_, texts->offsets)->shape[0] - 1;
      DPI_RETURN_IF_ERROR(vocabulary_size(f, texts->offsets, n));
      DPI_RETURN_IF_ERROR(expect(texts->bytes, Type::kU8, {-1}, "a vocabulary needs"));
      DPI_RETURN_IF_ERROR(one_pair(f, *texts));
      return vocabulary_ids(texts->ids, n);
    }
    if (const auto* integers = std::get_if<step::VocabInt>(&step)) return numbers(f, *integers);
    if (const auto* floats = std::get_if<step::VocabFloat>(&step)) return numbers(f, *floats);
    return {};
  }

  template <class Step>
  Status numbers(const FeatureSpec& f, const Step& step) {
    DPI_RETURN_IF_ERROR(expect(step.keys, Type::kI64, {-1}, "a vocabulary needs"));
    const int64_t n = find_data_set(list_, step.keys)->shape[0];
    DPI_RETURN_IF_ERROR(vocabulary_size(f, step.keys, n));
    return vocabulary_ids(step.ids, n);
  }

  /// A vocabulary is indexed once for all features that name it. If its bytes could be cut in several ways, a
  /// small file could ask for any number of indexes.
  Status one_pair(const FeatureSpec& f, const step::VocabString& texts) {
    const std::string& cut = offsets_of_.try_emplace(texts.bytes, texts.offsets).first->second;
    const std::string& whole = bytes_of_.try_emplace(texts.offsets, texts.bytes).first->second;
    if (cut == texts.offsets && whole == texts.bytes) return {};
    return bad_model(texts.bytes + ": feature " + in_quotes(f.name) + " reads it with " + texts.offsets +
                     ", another feature reads one of them with other data");
  }

  Status vocabulary_size(const FeatureSpec& f, const std::string& path, int64_t n) {
    if (n >= 0 && n <= kMaxVocabulary) return {};
    return bad_model(path + ": feature " + in_quotes(f.name) + " has a vocabulary of " + std::to_string(n) +
                     " entries");
  }

  Status vocabulary_ids(const std::string& path, int64_t n) {
    return path.empty() ? Status() : expect(path, Type::kI64, {n}, "the vocabulary needs");
  }

  Status golden() {
    const BatchColumns l = columns_of(manifest_.features);
    const GoldenSpec& g = manifest_.golden;
    const auto heads = static_cast<int64_t>(manifest_.heads.size());
    const bool split = g.shared_rows > 0;
    DPI_RETURN_IF_ERROR(expect("/golden/value", Type::kF32, {g.rows, heads}));
    for (const char* path : {"/golden/logit", "/golden/value_tolerance", "/golden/logit_tolerance"}) {
      if (find_data_set(list_, path) == nullptr) continue;
      DPI_RETURN_IF_ERROR(expect(path, Type::kF32, {g.rows, heads}));
    }
    if (!g.raw.empty()) DPI_RETURN_IF_ERROR(golden_raw(g));
    DPI_RETURN_IF_ERROR(golden_part("", "offsets", g.rows, split ? l.n_item_slots : l.n_slots,
                                    split ? l.n_item_columns : l.n_columns));
    if (!split) return {};
    DPI_RETURN_IF_ERROR(expect("/golden/shared_offsets", Type::kI64, {g.shared_rows + 1}));
    return golden_part("shared_", "shared_bag_offsets", g.shared_rows, l.n_shared_slots, l.n_shared_columns);
  }

  Status golden_raw(const GoldenSpec& g) {
    const auto columns = static_cast<int64_t>(g.raw.size());
    DPI_RETURN_IF_ERROR(expect("/golden/raw_cells", Type::kI64, {g.raw_rows * columns + 1}));
    DPI_RETURN_IF_ERROR(expect("/golden/raw_texts", Type::kI64, {-1}, "raw cells need"));
    return expect("/golden/raw_bytes", Type::kU8, {-1}, "raw cells need");
  }

  Status golden_part(const std::string& prefix, const std::string& offsets, int64_t rows, int64_t slots,
                     int64_t columns) {
    const std::string base = "/golden/" + prefix;
    if (columns > 0) DPI_RETURN_IF_ERROR(expect(base + "dense", Type::kF32, {rows, columns}));
    if (slots == 0) return {};
    DPI_RETURN_IF_ERROR(expect("/golden/" + offsets, Type::kI64, {rows * slots + 1}));
    DPI_RETURN_IF_ERROR(expect(base + "ids", Type::kI64, {-1}));
    if (find_data_set(list_, base + "weights") == nullptr) return {};
    return expect(base + "weights", Type::kF32, {find_data_set(list_, base + "ids")->shape[0]});
  }

  const Manifest& manifest_;
  const std::vector<DataSetInfo>& list_;
  uint64_t param_bytes_ = 0, named_bytes_ = 0;  // of all parameters; of those that ops named so far
  std::set<std::string_view> table_data_;
  std::map<std::string_view, std::string> offsets_of_, bytes_of_;  // of string vocabularies
};

}  // namespace

const DataSetInfo* find_data_set(const std::vector<DataSetInfo>& data_sets, std::string_view path) {
  const auto it = std::lower_bound(data_sets.begin(), data_sets.end(), path,
                                   [](const DataSetInfo& info, std::string_view p) { return info.path < p; });
  return it != data_sets.end() && it->path == path ? &*it : nullptr;
}

Status check_data_sets(const Manifest& manifest, const std::vector<DataSetInfo>& data_sets) {
  return Checker(manifest, data_sets).run();
}

}  // namespace dpi
