#include "bundle/delta/delta_data.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/text.hpp"
#include "bundle/hdf5_profile.hpp"

namespace dpi {
namespace {

using Type = DataSetInfo::Type;

Status at(const DataSetInfo& info, const std::string& text) { return bad_model(info.path + ": " + text); }

/// Rising, each once, inside [lo, hi).
Status check_rising(const DataSetInfo& info, const std::vector<int64_t>& list, const char* what, int64_t lo,
                    int64_t hi) {
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string who = std::string(what) + " " + std::to_string(list[i]) + " at " + std::to_string(i);
    if (list[i] < lo || (hi != INT64_MAX && list[i] >= hi))
      return at(info, who + " is out of range: there are " + std::to_string(hi));
    if (i == 0 || list[i] > list[i - 1]) continue;
    return at(
        info,
        who + (list[i] == list[i - 1] ? " is there twice" : " comes after " + std::to_string(list[i - 1])) +
            "; they rise, each once");
  }
  return {};
}

/// The first that both rising lists hold; false = none.
bool find_common(const std::vector<int64_t>& a, const std::vector<int64_t>& b, int64_t* out) {
  for (auto x = a.begin(), y = b.begin(); x != a.end() && y != b.end();) {
    if (*x == *y) {
      *out = *x;
      return true;
    }
    *x < *y ? ++x : ++y;
  }
  return false;
}

/// The data sets of one table or key set, by the last part of their names.
struct Group {
  std::map<std::string, const DataSetInfo*, std::less<>> sets;

  const DataSetInfo* find(std::string_view part) const {
    const auto it = sets.find(part);
    return it == sets.end() ? nullptr : it->second;
  }
};

class Sorter {
 public:
  Sorter(const std::vector<DataSetInfo>& list, const Bundle& result, const ReadI64& read)
      : list_(list), result_(result), read_(read) {}

  Result<DeltaParts> run() {
    for (const DataSetInfo& info : list_) DPI_RETURN_IF_ERROR(place(info));
    for (const auto& [i, group] : sets_) DPI_RETURN_IF_ERROR(key_set(i, group));
    for (const auto& [i, group] : tables_) DPI_RETURN_IF_ERROR(table(i, group));
    const std::vector<TableSpec>& all = result_.manifest().tables;
    for (size_t t = 0; t < all.size(); ++t) DPI_RETURN_IF_ERROR(has_added_rows(all[t], t));
    return std::move(out_);
  }

 private:
  Status place(const DataSetInfo& info) {
    const std::string_view path = info.path;
    if (path.starts_with("/new/")) {
      if (path == "/new/block" || path == "/new/runs" || path == "/new/metadata") return {};
      return at(info, "is not part of a delta");
    }
    const bool hot = path == result_.manifest().hot_keys;  // whole, like parameters
    if (path.starts_with("/tables/") && !hot) return place_rows(info, path.substr(sizeof("/tables/") - 1));
    const DataSetInfo* whole = result_.find(info.path);
    if (whole == nullptr) return at(info, "the new bundle has no such data set");
    const bool behind = path.starts_with("/encoders/");
    if (whole->type != info.type || whole->shape.size() != info.shape.size()) return differs(info, *whole);
    for (size_t d = 0; d < info.shape.size(); ++d)
      if (behind ? info.shape[d] > whole->shape[d] : info.shape[d] != whole->shape[d])
        return differs(info, *whole);
    if (info.extent.length == 0) return at(info, "has no elements");
    out_.arrays.push_back(&info);
    return {};
  }

  static Status differs(const DataSetInfo& info, const DataSetInfo& whole) {
    return at(info, std::string("is ") + shape_text(info.shape) + " " + type_name(info.type) +
                        ", in the new bundle it is " + shape_text(whole.shape) + " " + type_name(whole.type));
  }

  /// "<number>.<part>" of a table, "set<number>.<part>" of a key set.
  Status place_rows(const DataSetInfo& info, std::string_view name) {
    const bool set = name.starts_with("set");
    if (set) name.remove_prefix(3);
    const size_t dot = std::min(name.find('.'), name.size());
    size_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + dot, number);
    const bool plain = error == std::errc() && end == name.data() + dot && dot + 1 < name.size() &&
                       (name[0] != '0' || dot == 1);
    const std::string part(plain ? name.substr(dot + 1) : "");
    const Manifest& m = result_.manifest();
    const bool known =
        set ? part == "added" || part == "gone"
            : part == "rows" || part == "scale" || part == "offset" || part == "at" || part == "gone";
    if (!known || number >= (set ? m.key_sets.size() : m.tables.size()))
      return at(info, "is not part of a delta of this bundle");
    (set ? sets_ : tables_)[number].sets[part] = &info;
    return {};
  }

  Status expect(const DataSetInfo& info, Type type, const std::vector<int64_t>& shape) const {
    if (info.type == type && info.shape == shape && info.extent.length > 0) return {};
    return at(info, std::string("is ") + shape_text(info.shape) + " " + type_name(info.type) + ", expected " +
                        shape_text(shape) + " " + type_name(type));
  }

  Result<std::vector<int64_t>> numbers(const DataSetInfo* info, const char* what, int64_t lo, int64_t hi) {
    if (info == nullptr) return std::vector<int64_t>();
    if (info->shape.size() != 1 || info->shape[0] < 1)
      return at(*info, "is " + shape_text(info->shape) + ", expected one dimension with elements");
    DPI_RETURN_IF_ERROR(expect(*info, Type::kI64, info->shape));
    DPI_ASSIGN_OR_RETURN(std::vector<int64_t> out, read_(*info));
    DPI_RETURN_IF_ERROR(check_rising(*info, out, what, lo, hi));
    return out;
  }

  Status key_set(size_t i, const Group& g) {
    const KeySetSpec& spec = result_.manifest().key_sets[i];
    const DataSetInfo& any = *g.sets.begin()->second;
    if (spec.external()) return at(any, "key set " + in_quotes(spec.name) + " is external");
    KeySetDelta d;
    d.key_set = i;
    d.added_data = g.find("added");
    DPI_ASSIGN_OR_RETURN(d.added, numbers(g.find("added"), "key", INT64_MIN, INT64_MAX));
    DPI_ASSIGN_OR_RETURN(d.gone, numbers(g.find("gone"), "key", INT64_MIN, INT64_MAX));
    int64_t both = 0;
    if (find_common(d.added, d.gone, &both))
      return at(any, "key " + std::to_string(both) + " is added and gone");
    if (static_cast<int64_t>(d.added.size()) > spec.keys)
      return at(any, "more keys are added than the set has: " + std::to_string(spec.keys));
    out_.key_sets.push_back(std::move(d));
    return {};
  }

  Status table(size_t i, const Group& g) {
    const TableSpec& t = result_.manifest().tables[i];
    const DataSetInfo& any = *g.sets.begin()->second;
    if (t.external) return at(any, "table " + in_quotes(t.name) + " is external");
    const bool keyed = !t.keys.empty();
    TableDelta d;
    d.table = i;
    d.rows = g.find("rows");
    d.scale = g.find("scale");
    d.offset = g.find("offset");
    if (keyed && g.find("gone") != nullptr)
      return at(*g.find("gone"), "table " + in_quotes(t.name) + " is keyed: keys go with their set");
    DPI_ASSIGN_OR_RETURN(d.at, numbers(g.find("at"), keyed ? "key" : "row", keyed ? INT64_MIN : 0,
                                       keyed ? INT64_MAX : t.rows));
    DPI_ASSIGN_OR_RETURN(d.gone, numbers(g.find("gone"), "row", 0, t.rows));
    DPI_RETURN_IF_ERROR(rows_of(any, t, &d));
    int64_t both = 0;
    if (find_common(d.at, d.gone, &both) || (d.all && !d.gone.empty()))
      return at(*g.find("gone"), "row " + std::to_string(d.all ? d.gone[0] : both) + " is set and gone");
    if (keyed) DPI_RETURN_IF_ERROR(keys_of(d));
    out_.tables.push_back(std::move(d));
    return {};
  }

  /// Number and form of the rows that are set.
  Status rows_of(const DataSetInfo& any, const TableSpec& t, TableDelta* d) const {
    const bool keyed = !t.keys.empty();
    const std::string who = "table " + in_quotes(t.name);
    if (d->rows == nullptr) {
      if (d->at.empty() && d->scale == nullptr && d->offset == nullptr) return {};
      return at(any, who + " has no rows for what is set");
    }
    const int64_t columns = storage_columns(t.dtype, t.dim);
    if (d->rows->shape.size() != 2) return expect(*d->rows, storage_type(t.dtype), {t.rows, columns});
    const auto listed = static_cast<int64_t>(d->at.size());
    int64_t n = listed;
    if (d->at.empty() && (!keyed || d->rows->shape[0] != 1)) {
      d->all = true;
      n = t.rows;
    } else if (keyed && d->rows->shape[0] == listed + 1) {
      d->default_row = true;
      n = listed + 1;
    }
    DPI_RETURN_IF_ERROR(expect(*d->rows, storage_type(t.dtype), {n, columns}));
    const kernels::RowForm& form = kernels::row_form(t.dtype);
    DPI_RETURN_IF_ERROR(scalars(*d, d->scale, form.scale_bytes, who, "scale"));
    return scalars(*d, d->offset, form.offset_bytes, who, "offset");
  }

  /// Checks scales or offsets of the rows that are set: `bytes` each, 0 = the type has none.
  Status scalars(const TableDelta& d, const DataSetInfo* info, int32_t bytes, const std::string& who,
                 const std::string& what) const {
    const bool has = info != nullptr;
    const char* const an = what == "offset" ? " has an " : " has a ";
    if (has != (bytes > 0)) return at(*d.rows, who + (has ? an : " has no ") + what);
    return has ? expect(*info, scalar_type(bytes), {d.rows->shape[0]}) : Status();
  }

  /// Key sets are sorted first.
  const KeySetDelta* changes_of(const TableSpec& t) const {
    const auto& all = out_.key_sets;
    const auto it = std::lower_bound(all.begin(), all.end(), t.key_set, [](const KeySetDelta& s, int32_t n) {
      return static_cast<int32_t>(s.key_set) < n;
    });
    return it == all.end() || static_cast<int32_t>(it->key_set) != t.key_set ? nullptr : &*it;
  }

  Status keys_of(const TableDelta& d) const {
    const TableSpec& t = result_.manifest().tables[d.table];
    const KeySetDelta* set = changes_of(t);
    int64_t both = 0;
    if (set != nullptr && find_common(d.at, set->gone, &both))
      return at(*d.rows, "table " + in_quotes(t.name) + ": key " + std::to_string(both) + " is set and gone");
    return {};
  }

  /// Every table of a set has a row for each key that came.
  Status has_added_rows(const TableSpec& t, size_t number) const {
    const KeySetDelta* set = t.keys.empty() ? nullptr : changes_of(t);
    if (set == nullptr || set->added.empty()) return {};
    const auto d = std::lower_bound(out_.tables.begin(), out_.tables.end(), number,
                                    [](const TableDelta& x, size_t n) { return x.table < n; });
    const bool here = d != out_.tables.end() && d->table == number;
    if (here && d->all) return {};
    const std::span<const int64_t> has = here ? std::span(d->at) : std::span<const int64_t>();
    for (const int64_t key : set->added) {
      if (std::binary_search(has.begin(), has.end(), key)) continue;
      return at(*set->added_data, "key " + std::to_string(key) + " has no row in table " + in_quotes(t.name));
    }
    return {};
  }

  const std::vector<DataSetInfo>& list_;
  const Bundle& result_;
  const ReadI64& read_;
  std::map<size_t, Group> tables_, sets_;
  DeltaParts out_;
};

}  // namespace

Result<DeltaParts> sort_delta_data(const std::vector<DataSetInfo>& data_sets, const Bundle& result,
                                   const ReadI64& read) {
  return Sorter(data_sets, result, read).run();
}

}  // namespace dpi
