#include "runtime/load/key_loader.hpp"

#include <algorithm>

#include "bundle/extent_reader.hpp"
#include "store/resident/resident_keys.hpp"

namespace dpi {

namespace {

/// Which key sets of the bundle the plan's features name; external ones have no keys here.
std::vector<bool> sets_in_use(const Bundle& bundle, const Plan& plan) {
  std::vector<bool> used(bundle.manifest().key_sets.size(), false);
  for (const FeatureSpec& f : plan.features) {
    if (f.key_set >= 0 && !f.keys_elsewhere) used[static_cast<size_t>(f.key_set)] = true;
  }
  return used;
}

}  // namespace

Result<std::unique_ptr<KeyPlaces>> load_keys(Bundle& bundle, const Plan& plan, LoadWatch* watch) {
  const std::vector<bool> used = sets_in_use(bundle, plan);
  if (std::none_of(used.begin(), used.end(), [](bool u) { return u; })) return std::unique_ptr<KeyPlaces>();
  std::vector<KeyIndex> indexes(used.size());
  for (size_t s = 0; s < used.size(); ++s) {
    if (!used[s]) continue;
    DPI_ASSIGN_OR_RETURN(indexes[s], KeyIndex::create(bundle.manifest().key_sets[s].keys));
    DPI_RETURN_IF_ERROR(bundle.read_keys(s, [&](int64_t first, std::span<const int64_t> keys) -> Status {
      indexes[s].add(first, keys);
      return watch->advance(keys.size_bytes());
    }));
  }
  return std::unique_ptr<KeyPlaces>(std::make_unique<ResidentKeys>(std::move(indexes)));
}

KeyBytes key_bytes(const Bundle& bundle, const Plan& plan, int32_t threads) {
  const std::vector<bool> used = sets_in_use(bundle, plan);
  KeyBytes bytes;
  for (size_t s = 0; s < used.size(); ++s) {
    const KeySetSpec& set = bundle.manifest().key_sets[s];
    if (!used[s]) continue;
    const uint64_t read = static_cast<uint64_t>(set.keys) * sizeof(int64_t);
    bytes.read += read;
    bytes.kept += KeyIndex::bytes_of(set.keys);
    bytes.block = std::max(bytes.block, std::min<uint64_t>(read, kReadBlockBytes * read_buffers(threads)));
  }
  return bytes;
}

}  // namespace dpi
