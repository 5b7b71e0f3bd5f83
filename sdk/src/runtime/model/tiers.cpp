#include "runtime/model/tiers.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"

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
  for (const TierOptions::Table& t : options.tiers.tables) DPI_RETURN_IF_ERROR(check(t.name));
  return {};
}

BundleTable place_in_file(const Bundle& bundle, const PlanTable& t) {
  const TableSpec& spec = bundle.manifest().tables[static_cast<size_t>(t.source)];
  BundleTable b;
  b.name = t.name;
  b.dim = static_cast<int32_t>(spec.dim);
  b.in_file = spec.dtype;
  b.dtype = t.dtype;
  b.rows = spec.rows;
  b.offset = bundle.find(spec.data)->extent.offset;
  if (!spec.scale.empty()) b.scale_offset = bundle.find(spec.scale)->extent.offset;
  return b;
}

}  // namespace

Status choose_tiers(const Manifest& manifest, const ModelOptions& options, PlanOptions* plan) {
  DPI_RETURN_IF_ERROR(check_names(manifest, options));
  if (options.tiers.host_bytes == 0) return {};
  for (const TableSpec& t : manifest.tables) {
    const auto said = std::find_if(options.table_tiers.begin(), options.table_tiers.end(),
                                   [&](const auto& o) { return o.first == t.name; });
    if (said != options.table_tiers.end() && said->second != TableTier::kAuto) continue;
    const auto bytes = static_cast<uint64_t>(t.loaded_rows() * t.dim * kernels::dtype_bytes(t.dtype));
    if (bytes > options.resident_bytes) plan->may_tier.push_back(t.name);
  }
  return {};
}

Result<std::unique_ptr<BundleRows>> rows_in_bundle(const Bundle& bundle, const Plan& plan) {
  std::shared_ptr<ByteSource> file = bundle.file();
  if (file == nullptr)
    return unsupported(bundle.name() +
                       ": rows of the host tier are read from the bundle's file; load it from a path");
  std::vector<BundleTable> tables;
  for (const PlanTable& t : plan.tables) {
    if (!t.tiered) continue;
    if (t.needs_nonzero)
      return unsupported(bundle.name() + ": table '" + t.name +
                         "' cannot be in the host tier: a mask asks which of its rows are zero");
    tables.push_back(place_in_file(bundle, t));
  }
  return std::make_unique<BundleRows>(std::move(file), bundle.name(), std::move(tables));
}

}  // namespace dpi
