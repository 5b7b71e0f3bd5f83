#include "runtime/load/tiers.hpp"

#include <algorithm>
#include <utility>

#include <dpi/kernels/narrow.hpp>

#include "base/text.hpp"
#include "runtime/load/outside_rows.hpp"

namespace dpi {

namespace {

Status no_such_table(const Manifest& manifest, const std::string& name) {
  std::string names;
  for (const TableSpec& t : manifest.tables) names += (names.empty() ? "" : ", ") + t.name;
  return {Code::kNotFound, "an option names table " + in_quotes(name) + ", the bundle has " + names};
}

Status check_names(const Manifest& manifest, const ModelOptions& options) {
  const auto check = [&](const std::string& name) {
    const auto& tables = manifest.tables;
    const bool found =
        std::any_of(tables.begin(), tables.end(), [&](const TableSpec& t) { return t.name == name; });
    return found ? Status() : no_such_table(manifest, name);
  };
  for (const auto& [name, tier] : options.table_tiers) {
    DPI_RETURN_IF_ERROR(check(name));
    if (tier == TableTier::kHost && options.tiers.host_bytes == 0)
      return invalid_argument("option 'table." + name +
                              ".tier' is 'host', but there is no host tier: set 'store.host_bytes'");
  }
  if (options.tiers.gpu_bytes > 0 && options.tiers.host_bytes == 0)
    return invalid_argument(
        "option 'store.gpu_bytes' copies rows of a host tier, and there is none: set 'store.host_bytes'");
  for (const TierOptions::Table& t : options.tiers.tables) DPI_RETURN_IF_ERROR(check(t.name));
  for (const TableSpec& t : manifest.tables) {
    const TierOptions::Table* o = options.tiers.find(t.name);
    if (!t.external && o != nullptr && o->stale)
      return invalid_argument(
          "option 'table." + t.name +
          ".update' is 'stale', but the table is not external: its rows are the bundle's");
    const auto tier = std::find(options.table_tiers.begin(), options.table_tiers.end(),
                                std::pair<std::string, TableTier>(t.name, TableTier::kResident));
    if (t.external && tier != options.table_tiers.end())
      return invalid_argument("option 'table." + t.name +
                              ".tier' is 'resident', but the table is external: its rows are in a store");
    if (t.external && t.key_set >= 0 && o != nullptr && o->fill != 0.0f)
      return invalid_argument("option 'table." + t.name +
                              ".default' is set, but the bundle says what absent " +
                              "keys of this external table get");
    const bool halves = t.dtype == kernels::DType::kF16 || kernels::row_form(t.dtype).offset_bytes > 0;
    if (o != nullptr && halves && !kernels::half_holds(o->fill))
      return invalid_argument("option 'table." + t.name + ".default' is beyond the range of " +
                              kernels::name_of(t.dtype) + ", which the table's rows are");
  }
  return {};
}

/// All but the place of its rows.
BundleTable without_place(const PlanTable& t, const TableSpec& spec) {
  BundleTable b;
  b.name = t.name;
  b.dim = static_cast<int32_t>(spec.dim);
  b.in_file = spec.dtype;
  b.dtype = t.dtype;
  b.rows = spec.rows;
  return b;
}

BundleTable place_in_file(const Bundle& bundle, const PlanTable& t) {
  const TableSpec& spec = bundle.manifest().tables[static_cast<size_t>(t.source)];
  BundleTable b = without_place(t, spec);
  b.offset = bundle.find(spec.data)->extent.offset;
  if (!spec.scale.empty()) b.scale_offset = bundle.find(spec.scale)->extent.offset;
  if (!spec.offset.empty()) b.offsets_at = bundle.find(spec.offset)->extent.offset;
  return b;
}

/// Checks that the options say where an external table's rows are and how they are cached.
Status check_external(const TableSpec& t, const TierOptions& o) {
  const std::string what = "table '" + t.name + "' is external: its rows are not in the bundle, ";
  if (o.rocksdb_path.empty() && o.redis_address.empty())
    return unsupported(
        what + "and options 'store.rocksdb_path', 'store.redis_address' or both must say where they are");
  if (o.host_bytes == 0) return unsupported(what + "and need a host tier: set 'store.host_bytes'");
  const bool keyed = t.key_set >= 0;
  if (t.rows < 1 || t.digest.empty() || (!keyed && t.rows > INT32_MAX - 1))
    return unsupported(what + "and it must state its rows (" +
                       (keyed ? "or its set's keys" : "at most 2^31 - 2") + ") and their digest");
  return {};
}

BundleTable place_elsewhere(const PlanTable& t, const Manifest& manifest, int32_t index) {
  const TableSpec& spec = manifest.tables[static_cast<size_t>(t.source)];
  BundleTable b = without_place(t, spec);
  b.elsewhere = index;
  if (spec.key_set >= 0) {
    const KeySetSpec& set = manifest.key_sets[static_cast<size_t>(spec.key_set)];
    b.keyed = {.absent = kMostRequestKeys, .pads = set.pads, .default_row = spec.default_row};
  }
  return b;
}

tiered::StoredTable stored_as(const TableSpec& t, const TierOptions& options) {
  tiered::StoredTable s;
  s.name = t.name;
  s.content = t.digest;
  s.keyed = t.key_set >= 0;
  s.stale = options.find(t.name) != nullptr && options.find(t.name)->stale;
  s.rows = t.rows - (s.keyed ? 1 : 0);  // the default row is not stored
  s.dim = static_cast<int32_t>(t.dim);
  s.dtype = static_cast<int32_t>(t.dtype);
  s.row_bytes = tiered::row_bytes({t.name, t.rows, s.dim, t.dtype});
  return s;
}

}  // namespace

Status choose_tiers(const Manifest& manifest, const ModelOptions& options, PlanOptions* plan) {
  DPI_RETURN_IF_ERROR(check_names(manifest, options));
  for (const TableSpec& t : manifest.tables) {
    if (t.external) {
      DPI_RETURN_IF_ERROR(check_external(t, options.tiers));
      plan->may_tier.push_back(t.name);
      continue;
    }
    if (options.tiers.host_bytes == 0) continue;
    const auto said = std::find_if(options.table_tiers.begin(), options.table_tiers.end(),
                                   [&](const auto& o) { return o.first == t.name; });
    if (said != options.table_tiers.end() && said->second != TableTier::kAuto) continue;
    const auto bytes = static_cast<uint64_t>(t.loaded_rows() * kernels::row_bytes_of(t.dtype, t.dim));
    if (bytes > options.resident_bytes) plan->may_tier.push_back(t.name);
  }
  return {};
}

Result<std::unique_ptr<BundleRows>> tier_rows(const Bundle& bundle, const Plan& plan,
                                              const ModelOptions& options) {
  std::vector<BundleTable> tables;
  std::vector<tiered::StoredTable> stored;
  for (const PlanTable& t : plan.tables) {
    if (t.source < 0) continue;
    const TableSpec& spec = bundle.manifest().tables[static_cast<size_t>(t.source)];
    const std::string table = bundle.name() + ": table '" + t.name + "'";
    if (t.needs_nonzero && (t.tiered || spec.external))
      return unsupported(table + " cannot be in the host tier: a mask asks which of its rows are zero");
    if (!t.tiered) continue;
    if (spec.external) {
      const std::vector<float> absent(spec.default_row.begin(), spec.default_row.end());
      Status fits = t.dtype == spec.dtype ? Status() : check_narrow(absent, t.dtype);
      if (!fits.ok()) return std::move(fits).within(table + ", its default row");
      stored.push_back(stored_as(spec, options.tiers));
    }
    tables.push_back(spec.external
                         ? place_elsewhere(t, bundle.manifest(), static_cast<int32_t>(stored.size()) - 1)
                         : place_in_file(bundle, t));
  }
  std::shared_ptr<ByteSource> file = bundle.file();
  if (stored.size() < tables.size() && file == nullptr)
    return unsupported(bundle.name() +
                       ": rows of the host tier are read from the bundle's file; load it from a path");
  std::unique_ptr<tiered::RowSource> elsewhere;
  if (!stored.empty()) {
    DPI_ASSIGN_OR_RETURN(elsewhere, open_outside_rows(std::move(stored), options));
  }
  return std::make_unique<BundleRows>(std::move(file), bundle.name(), std::move(tables),
                                      std::move(elsewhere));
}

}  // namespace dpi
