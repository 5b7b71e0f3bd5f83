#include "runtime/engine/memory_forecast.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "base/host_share.hpp"
#include "encode/vocabulary_set.hpp"
#include "runtime/engine/flight_sizes.hpp"
#include "runtime/engine/host_flights.hpp"
#include "runtime/engine/user_cache.hpp"
#include "runtime/load/hot_keys.hpp"
#include "runtime/load/key_loader.hpp"
#include "runtime/load/table_loader.hpp"
#include "runtime/request/resolve.hpp"
#include "store/arena_map.hpp"
#include "store/spread/peer_copies.hpp"

namespace dpi {

namespace {

// What describes a model, per byte of the bundle's metadata: kept, and the most while it is planned. The
// largest that were measured over all bundles of the tests are 8 and 26. A fixed part for what does not grow.
constexpr uint64_t kKeptPerByte = 10, kPlannedPerByte = 30, kFixed = uint64_t{64} << 10;
constexpr int32_t kParkedPerContext = 4;
constexpr uint64_t kFlightFixed = uint64_t{16} << 10, kFlightPerOp = 1536, kFlightPerValue = 64;
constexpr uint64_t kPerUser = 16;  // of a chunk, with a user cache

/// Sizes of the file's parts that the forecast uses.
struct FileSizes {
  uint64_t metadata = 0, params = 0, golden = 0, largest = 0;  // the largest extent that is no table

  explicit FileSizes(const Bundle& bundle) : metadata(bundle.file_bytes()) {
    for (const DataSetInfo& info : bundle.data_sets()) {
      metadata -= std::min(metadata, info.extent.length);
      if (info.path.starts_with("/params/")) params += info.extent.length;
      if (info.path.starts_with("/golden/")) golden += info.extent.length;
      if (!info.path.starts_with("/tables/")) largest = std::max(largest, info.extent.length);
    }
  }
};

uint64_t block_of(uint64_t bytes) { return std::min<uint64_t>(bytes, kReadBlockBytes); }

bool reads_tier(const ModelOptions& o, const Plan& plan) {
  return o.tiers.host_bytes > 0 && !plan.placements.empty();
}

/// One flight: as Flight::allocate, create_streams and BoundOps take it.
Status count_flight(const Plan& plan, const ModelOptions& o, const DeviceSizes& device, MemoryForecast* f) {
  const HostFlights host = host_flights(plan, o, o.max_rows);
  const ResolveSchema schema = make_resolve_schema(plan.features, plan.placements);
  DPI_ASSIGN_OR_RETURN(
      const FlightSizes sizes,
      FlightSizes::make(plan, schema, o, {o.max_rows, o.max_nnz, device.alignment, device.on_device}));
  int64_t input = 0, placed = 0;
  for (const InputMap& map : sizes.maps) {
    input = std::max(input, map.bytes);
    placed = std::max(placed, most_placed(schema, map));
  }
  const uint64_t scores = static_cast<uint64_t>(sizes.forms.rows()) * plan.heads.size() * sizeof(float);
  const uint64_t bound = kFlightFixed + kFlightPerOp * plan.ops.size() +
                         kFlightPerValue * plan.values.size() * sizes.forms.all().size() +
                         sizes.maps.size() * sizeof(InputMap::Sequence) * plan.features.size();
  const uint64_t kept =
      host.count > 1 ? 2 * static_cast<uint64_t>(host.kept_rows()) * plan.heads.size() * sizeof(float) : 0;
  // Host memory has one copy of the input and of the logits; a device has both, and staging has them again.
  const auto arena = static_cast<uint64_t>(sizes.forms.arena_bytes()), in = static_cast<uint64_t>(input);
  const uint64_t reader = reads_tier(o, plan) ? tier_reader_bytes(placed) : 0;
  uint64_t users = 0;
  if (!device.on_device && o.user_cache_bytes > 0) {
    const auto kept_of = UserCacheSizes::make(schema, user_part(plan), o.user_cache_bytes);
    f->user_cache = kept_of.bytes();
    users = static_cast<uint64_t>(kept_of.key_bytes) + kPerUser * static_cast<uint64_t>(sizes.forms.users());
  }
  f->device_flight = device.on_device ? arena + in + 2 * scores + device.scratch : 0;
  f->flight =
      (device.on_device ? f->device_flight + in + 2 * scores : arena + in + scores + kept + device.scratch) +
      bound + reader + users;
  return {};
}

uint64_t param_bytes(const Plan& plan) {
  uint64_t n = 0;
  for (const PlanParam& p : plan.params)  // their data may be gone already
    n += std::max(p.data.size(), static_cast<size_t>(p.dims.size())) * sizeof(float);
  return n;
}

/// The rows that dpi_model_warm_up makes up, and their scores.
uint64_t warm_up_bytes(const Plan& plan, int64_t rows) {
  const BatchColumns l = make_resolve_schema(plan.features).columns;
  const uint64_t row = static_cast<uint64_t>(l.n_slots) * sizeof(int64_t) +
                       static_cast<uint64_t>(l.n_columns) * sizeof(float) + plan.heads.size() * sizeof(float);
  return static_cast<uint64_t>(rows) * row;
}

TableRange range_of(const ModelOptions& options, const DeviceSizes& device) {
  if (!device.range.owners.empty() || !device.on_device || options.peer_devices.empty()) return device.range;
  TableRange r;
  r.owners = options.peer_devices;
  const std::vector<int32_t> devices = devices_of(options);
  const bool one = r.owners.size() == 1 && devices == r.owners;
  r.kind = one ? DPI_RANGE_NONE : DPI_RANGE_PEERS;
  return r;
}

/// The share of device `index`, on which `contexts` contexts are made.
DeviceShare device_share(const ArenaMap& map, const TableRange& range, int32_t index, bool runs,
                         uint64_t contexts, const MemoryForecast& f) {
  DeviceShare s;
  s.index = index;
  for (const ArenaMap::Block& b : map.blocks) {
    if (b.in_range) s.range += range.bytes_on(index, b.bytes);
    if (!b.in_range && runs) s.tables += b.bytes;
  }
  s.copies = runs ? f.peer_copies : 0;
  s.weights = runs ? f.weights : 0;
  s.contexts = f.device_flight * static_cast<uint64_t>(f.flights) * contexts;
  return s;
}

void count_devices(const ArenaMap& map, const TableRange& range, const ModelOptions& options,
                   const DeviceSizes& device, MemoryForecast* f) {
  f->own_tables = f->tables;
  if (!device.on_device) return;
  const std::vector<int32_t> runs = devices_of(options);
  std::vector<int32_t> all = runs;
  for (const int32_t owner : range.used() ? range.owners : std::vector<int32_t>())
    if (std::find(all.begin(), all.end(), owner) == all.end()) all.push_back(owner);
  const auto n = static_cast<int32_t>(runs.size());
  f->others = static_cast<uint64_t>(n - 1) *
              (map.bytes - f->range + f->peer_copies + f->peer_copy_host + f->weights + f->model);
  const bool given = f->shared >= f->range;  // by models that are loaded, or by this model's first device
  for (const ArenaMap::Block& b : map.blocks) {
    if (!b.in_range || given) continue;
    f->own_tables -= std::min(f->own_tables, b.bytes);
    f->own_tables += range.bytes_on(options.device_index, b.bytes);
  }
  if (all.size() < 2 && range.owners.empty()) return;
  for (int32_t i = 0; i < static_cast<int32_t>(all.size()); ++i) {
    const auto share = [&](int32_t all_of_them) { return (all_of_them - i + n - 1) / n; };
    const int32_t contexts = i < n ? share(f->contexts) + share(f->parked) : 0;
    f->devices.push_back(
        device_share(map, range, all[static_cast<size_t>(i)], i < n, static_cast<uint64_t>(contexts), *f));
  }
}

}  // namespace

int32_t context_count(const ModelOptions& options) {
  if (options.max_contexts > 0) return options.max_contexts;
  const auto devices = static_cast<int32_t>(devices_of(options).size());
  return std::clamp(usable_processors(), devices, 1024);
}

int32_t parked_count(const ModelOptions& options, const Plan& plan) {
  if (!reads_tier(options, plan)) return 0;
  return options.tiers.parked > 0 ? options.tiers.parked : kParkedPerContext * context_count(options);
}

int64_t least_weight_bytes(const ModelOptions& options) {
  if (options.precision == Precision::kInt8) return 1;
  return options.precision == Precision::kFp16 || options.precision == Precision::kBf16 ? 2 : 4;
}

Result<MemoryForecast> forecast_memory(const Bundle& bundle, const Plan& plan, const ModelOptions& options,
                                       const DeviceSizes& device) {
  MemoryForecast f;
  uint64_t choosing = 0;
  const TableRange range = range_of(options, device);
  const bool several = device.on_device && options.devices.size() > 1;  // then each table has a name
  std::vector<StoreTable> tables = store_tables(bundle, plan, options.share, nullptr, options.spare_percent,
                                                several ? "of this load" : "");
  if (options.tiers.host_bytes > 0) {
    DPI_ASSIGN_OR_RETURN(f.host_tier, tier_bytes(tables, options.tiers));
    if (device.warms || has_hot_keys(bundle, options)) {
      DPI_ASSIGN_OR_RETURN(choosing, hot_key_bytes(tables, options.tiers));
    }
    if (device.on_device) {
      DPI_ASSIGN_OR_RETURN(f.device_cache, device_cache_bytes(tables, options.tiers));
    }
    if (device.tier_given) f.host_tier_shared = std::exchange(f.host_tier, 0), f.device_cache = 0;
    for (StoreTable& t : tables) t.rows = t.tiered ? 0 : t.rows;
  }
  DPI_ASSIGN_OR_RETURN(const ArenaMap map, make_arena_map(tables, device.on_device, range.least()));
  if (range.used()) {
    const PeerCopyBytes copies = most_copy_bytes(tables, map, options.peer_copy_bytes);
    f.peer_copies = copies.device, f.peer_copy_host = copies.host;
  }
  const FileSizes file(bundle);
  f.shared = std::min(device.shared, map.bytes);
  f.tables = map.bytes - f.shared;
  for (const ArenaMap::Block& b : map.blocks) {
    f.may_share += b.may_share && options.share ? b.bytes : 0;
    f.range += b.in_range ? b.bytes : 0;
  }
  f.weights = device.weights != 0
                  ? device.weights
                  : param_bytes(plan) / sizeof(float) * static_cast<uint64_t>(device.weight_bytes);
  const KeyBytes keys = key_bytes(bundle, plan, options.threads);
  f.keys = keys.kept;
  f.encoders = VocabularySet::bytes_of(bundle);
  f.model = kKeptPerByte * file.metadata + kFixed;
  DPI_RETURN_IF_ERROR(count_flight(plan, options, device, &f));
  f.flights = device.on_device ? options.in_flight : host_flights(plan, options, options.max_rows).count;
  f.contexts = context_count(options);
  f.parked = parked_count(options, plan);
  f.warm_up =
      warm_up_bytes(plan, device.on_device ? options.max_rows * f.flights : most_warm_rows(plan, options));
  count_devices(map, range, options, device, &f);
  // stage by stage, with what is there already
  const uint64_t planned = kPlannedPerByte * file.metadata + kFixed;
  const uint64_t params = param_bytes(plan);
  const uint64_t graph = planned + file.params + params + 2 * file.largest + block_of(file.largest);
  const uint64_t ops = planned + params + f.weights + 4 * file.largest;  // a device packs op by op
  const uint64_t moving = f.tables + f.host_tier + f.device_cache + f.peer_copies + f.peer_copy_host +
                          f.weights + f.keys + f.model + f.user_cache +
                          table_loading_bytes(bundle, plan, device.on_device, options.threads) + choosing;
  const uint64_t keyed = f.weights + f.keys + f.model + f.user_cache + keys.block;
  const uint64_t indexed = f.kept() + 2 * block_of(file.largest);
  const uint64_t golden = options.verify_golden ? f.kept() + f.one_context() + 3 * file.golden : 0;
  f.loading = std::max({graph, ops, keyed, moving, indexed, golden}) + f.others;
  return f;
}

uint64_t MemoryForecast::most() const { return std::max(loading, kept() + all_contexts() + warm_up); }

std::string MemoryForecast::text() const {
  const uint64_t rest = most() - std::min(most(), kept() + all_contexts());
  const std::pair<const char*, uint64_t> parts[] = {{"tables", tables},
                                                    {"the host tier", host_tier},
                                                    {"the device's copies of its rows", device_cache},
                                                    {"copies of rows of other devices", peer_copies},
                                                    {"weights", weights},
                                                    {"keys", keys},
                                                    {"vocabularies", encoders},
                                                    {"its description", model},
                                                    {"users' values", user_cache},
                                                    {"contexts", all_contexts()},
                                                    {"loading", rest},
                                                    {"its other devices", others}};
  const auto* largest = std::max_element(std::begin(parts), std::end(parts),
                                         [](const auto& a, const auto& b) { return a.second < b.second; });
  std::string out = std::to_string(most()) + " bytes (";
  for (const auto& part : parts) {
    const std::string name = part.first;
    if (part.second == 0 &&
        (name == "its other devices" || name == "copies of rows of other devices" || name == "users' values"))
      continue;
    if (&part != parts) out += ", ";
    out += name + " " + std::to_string(part.second);
    if (name == "contexts")
      out += ": " + std::to_string(contexts) +
             (parked > 0 ? " and for calls that wait for rows " + std::to_string(parked) : std::string()) +
             " of " + std::to_string(flights) + " x " + std::to_string(flight);
  }
  if (shared > 0) out += "; tables that other models hold: " + std::to_string(shared) + ", not counted";
  if (host_tier_shared > 0)
    out += "; a host tier that other models hold: " + std::to_string(host_tier_shared) + ", not counted";
  return out + "), most of it for " + largest->first;
}

}  // namespace dpi
