// Rows of one table for a caller that inspects them, read as the model's lookups read them.
#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include <dpi/kernels/row_decode.hpp>

#include "base/text.hpp"
#include "runtime/execute/call_shares.hpp"
#include "runtime/model/model.hpp"

namespace dpi {

namespace {

constexpr size_t kGroup = 64;

/// The table of the plan that holds a table of the bundle as it is; -1 = no op reads it.
int32_t plan_table(const Plan& plan, size_t source) {
  for (size_t t = 0; t < plan.tables.size(); ++t) {
    if (plan.tables[t].source == static_cast<int32_t>(source)) return static_cast<int32_t>(t);
  }
  return -1;
}

/// Rows of up to kGroup keys; an absent one has the default row.
void rows_of_keys(const KeyPlaces& places, const TableSpec& table, std::span<const int64_t> keys,
                  int32_t* rows) {
  std::array<KeyLookup, kGroup> lookups;
  for (size_t k = 0; k < keys.size(); ++k) lookups[k] = {keys[k], 0, table.key_set, -1};
  places.find({lookups.data(), keys.size()});
  const auto absent = static_cast<int32_t>(table.rows - 1);
  for (size_t k = 0; k < keys.size(); ++k) rows[k] = lookups[k].row < 0 ? absent : lookups[k].row;
}

/// Finds the rows of any number of keys, which are row numbers where the table has no key set.
void rows_of(const KeyPlaces* places, const TableSpec& table, std::span<const int64_t> keys, int32_t* rows) {
  if (table.keys.empty()) {
    std::transform(keys.begin(), keys.end(), rows, [](int64_t k) { return static_cast<int32_t>(k); });
    return;
  }
  for (size_t at = 0; at < keys.size(); at += kGroup)
    rows_of_keys(*places, table, keys.subspan(at, std::min(kGroup, keys.size() - at)), rows + at);
}

Status in_time(Readiness ready) {
  if (ready == Readiness::kReady) return {};
  return {Code::kTimeout, "rows did not arrive before the deadline"};
}

/// Rows of a tiered table, or numbers of raw keys -> where they are until the reader releases them.
Status to_places(StoreReader& reader, int32_t table, const int64_t* raw_keys, const RunControl& control,
                 std::span<int32_t> rows) {
  StoreRequest::Lookup l;
  l.table = table;
  l.ids.ids = rows.data();
  l.ids.stride = 1;
  l.ids.rows = static_cast<int64_t>(rows.size());
  l.places = rows.data();
  l.place_stride = 1;
  l.raw_keys = raw_keys;
  auto ready = reader.acquire({{&l, 1}, control.deadline_ns, true, control.cancel});
  if (ready.ok()) return in_time(ready.value());
  Status s = std::move(ready).status();
  const int64_t key = s.row();
  return std::move(s).at(key, -1);  // no feature asked for it
}

}  // namespace

Result<Model::ReadTable> Model::read_table(const std::string& name) const {
  DPI_RETURN_IF_ERROR(check_process());
  const std::vector<TableSpec>& tables = manifest_.tables;
  const auto spec = std::find_if(tables.begin(), tables.end(), [&](const auto& t) { return t.name == name; });
  if (spec == tables.end()) return Status(Code::kNotFound, "there is no table " + in_quotes(name));
  const int32_t table = plan_table(engine().plan(), static_cast<size_t>(spec - tables.begin()));
  if (table < 0) {
    return Status(Code::kNotFound, "table " + in_quotes(name) +
                                       " is not loaded as it is: no op reads it, or only sums of its rows");
  }
  const bool is_tiered = engine().plan().tables[static_cast<size_t>(table)].tiered;
  if (is_tiered ? !engine().store().tier_stats(table)
                : !engine().host_memory() || engine().store().needs_ids())
    return unsupported("rows of table " + in_quotes(name) + " are not in host memory");
  return ReadTable{&*spec, table, is_tiered};
}

Result<int32_t> Model::row_dim(const std::string& name) const {
  DPI_ASSIGN_OR_RETURN(const ReadTable read, read_table(name));
  return static_cast<int32_t>(read.spec->dim);
}

Status Model::read_rows(const std::string& name, std::span<const int64_t> keys, std::span<float> out,
                        const RunControl& control) const {
  DPI_ASSIGN_OR_RETURN(const ReadTable read, read_table(name));
  DPI_RETURN_IF_ERROR(check_control(control));
  const TableSpec* const spec = read.spec;
  const auto dim = static_cast<size_t>(spec->dim);
  if (out.size() / dim < keys.size()) {
    return invalid_argument("out has " + std::to_string(out.size()) + " floats, expected " +
                            std::to_string(keys.size()) + " x " + std::to_string(dim));
  }
  for (size_t k = 0; spec->keys.empty() && k < keys.size(); ++k) {
    if (keys[k] >= 0 && keys[k] < spec->rows) continue;
    return invalid_argument("key " + std::to_string(k) + " is " + std::to_string(keys[k]) + ", table " +
                            in_quotes(name) + " has rows 0 to " + std::to_string(spec->rows - 1))
        .at(static_cast<int64_t>(k), -1);
  }
  // All at once: what fails has written nothing.
  std::vector<int32_t> rows(keys.size());
  const bool numbered = spec->external && spec->key_set >= 0;
  if (numbered && keys.size() > static_cast<size_t>(kMostRequestKeys))
    return invalid_argument("more than 2^30 keys at once");
  if (numbered)
    std::iota(rows.begin(), rows.end(), 0);
  else
    rows_of(engine().keys(), *spec, keys, rows.data());
  DPI_ASSIGN_OR_RETURN(const std::unique_ptr<StoreReader> reader,
                       engine().store().open_reader({static_cast<int64_t>(keys.size()), 1}));
  if (read.tiered) {
    DPI_RETURN_IF_ERROR(to_places(*reader, read.table, numbered ? keys.data() : nullptr, control, rows));
  } else {
    DPI_ASSIGN_OR_RETURN(const Readiness ready, reader->acquire({}));
    DPI_RETURN_IF_ERROR(in_time(ready));
  }
  if (const RowOverlay* overlay = engine().overlay_of(read.table); overlay != nullptr)
    for (int32_t& row : rows) row = overlay->place(row);
  const kernels::TableView view = reader->view(read.table);
  for (size_t k = 0; k < keys.size(); ++k) kernels::decode_row(view, rows[k], out.data() + k * dim);
  reader->release();
  if (control.version != nullptr) *control.version = version();
  return {};
}

}  // namespace dpi
