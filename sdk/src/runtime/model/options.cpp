#include "runtime/model/options.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>

#include "backend/abi/plugin.hpp"
#include "base/at_load.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"
#include "bundle/signature.hpp"
#include "runtime/model/device_list.hpp"

namespace dpi {

namespace {

struct Choice {
  const char* text;
  int value;
};

/// One option: how to set it from text, and how to print it. `help` says what is allowed.
struct OptionDef {
  const char* key;
  const char* help;
  std::function<bool(ModelOptions&, std::string_view)> set;
  std::function<std::string(const ModelOptions&)> get;
};

template <class T>
bool parse_number(std::string_view s, T lo, T hi, T* out) {
  T v{};
  const auto [end, ec] = std::from_chars(s.data(), s.data() + s.size(), v);
  if (ec != std::errc() || end != s.data() + s.size() || v < lo || v > hi) return false;
  *out = v;
  return true;
}

template <class T>
OptionDef number(const char* key, const char* help, T ModelOptions::* field, T lo, T hi) {
  return {key, help,
          [=](ModelOptions& o, std::string_view s) { return parse_number<T>(s, lo, hi, &(o.*field)); },
          [=](const ModelOptions& o) { return std::to_string(o.*field); }};
}

OptionDef text(const char* key, const char* help, std::string ModelOptions::* field) {
  return {key, help,
          [=](ModelOptions& o, std::string_view s) {
            o.*field = std::string(s);
            return true;
          },
          [=](const ModelOptions& o) { return o.*field; }};
}

template <class T>
OptionDef choice(const char* key, const char* help, T ModelOptions::* field, std::vector<Choice> choices) {
  return {key, help,
          [=](ModelOptions& o, std::string_view s) {
            for (const auto& c : choices) {
              if (s == c.text) {
                o.*field = static_cast<T>(c.value);
                return true;
              }
            }
            return false;
          },
          [=](const ModelOptions& o) {
            for (const auto& c : choices) {
              if (o.*field == static_cast<T>(c.value)) return std::string(c.text);
            }
            return std::string("?");
          }};
}

OptionDef word(const char* key, const char* help, std::string ModelOptions::* field,
               std::vector<const char*> words) {
  return {key, help,
          [=](ModelOptions& o, std::string_view s) {
            for (const char* w : words) {
              if (s == w) {
                o.*field = std::string(s);
                return true;
              }
            }
            return false;
          },
          [=](const ModelOptions& o) { return o.*field; }};
}

template <class T>
OptionDef tier_number(const char* key, const char* help, T TierOptions::* field, T lo, T hi) {
  return {key, help,
          [=](ModelOptions& o, std::string_view s) { return parse_number<T>(s, lo, hi, &(o.tiers.*field)); },
          [=](const ModelOptions& o) { return std::to_string(o.tiers.*field); }};
}

OptionDef tier_text(const char* key, const char* help, std::string TierOptions::* field) {
  return {key, help,
          [=](ModelOptions& o, std::string_view s) {
            o.tiers.*field = std::string(s);
            return true;
          },
          [=](const ModelOptions& o) { return o.tiers.*field; }};
}

constexpr std::pair<std::string_view, TableTier> kTiers[] = {
    {"auto", TableTier::kAuto}, {"resident", TableTier::kResident}, {"host", TableTier::kHost}};
constexpr std::pair<std::string_view, tiered::MissPolicy> kPolicies[] = {
    {"exact", tiered::MissPolicy::kExact},
    {"default", tiered::MissPolicy::kDefault},
    {"fail", tiered::MissPolicy::kFail}};

constexpr std::pair<std::string_view, bool> kUpdates[] = {{"refuse", false}, {"stale", true}};

template <class T, size_t N>
bool one_of(const std::pair<std::string_view, T> (&words)[N], std::string_view s, T* out) {
  const auto* const at = std::find_if(words, words + N, [s](const auto& w) { return w.first == s; });
  if (at != words + N) *out = at->second;
  return at != words + N;
}

template <class T, size_t N>
std::string word_of(const std::pair<std::string_view, T> (&words)[N], T value) {
  return std::string(std::find_if(words, words + N, [=](const auto& w) { return w.second == value; })->first);
}

std::string float_text(float value) {
  char text[32];
  const auto [end, ec] = std::to_chars(text, text + sizeof text, value);
  return ec == std::errc() ? std::string(text, end) : std::string();
}

bool parse_float(std::string_view s, float* out) {
  const auto [end, ec] = std::from_chars(s.data(), s.data() + s.size(), *out);
  return ec == std::errc() && end == s.data() + s.size() && std::isfinite(*out);
}

/// What differs for a table, added when nothing did before.
TierOptions::Table* table_of(ModelOptions* o, std::string_view name) {
  auto& tables = o->tiers.tables;
  const auto at =
      std::find_if(tables.begin(), tables.end(), [name](const auto& t) { return t.name == name; });
  if (at != tables.end()) return &*at;
  tables.push_back({std::string(name), tiered::MissPolicy::kExact, 0.0f, false});
  return &tables.back();
}

constexpr std::string_view kTablePrefix = "table.";
constexpr const char* kTableKeys = "table.NAME.tier, table.NAME.miss, table.NAME.default, table.NAME.update";

/// "table.NAME.what", whose name may have dots of its own.
Status set_table_option(ModelOptions* o, std::string_view key, std::string_view value) {
  const size_t dot = key.rfind('.');
  const std::string_view what = key.substr(dot + 1);
  const std::string_view name =
      dot > kTablePrefix.size() ? key.substr(kTablePrefix.size(), dot - kTablePrefix.size()) : "";
  bool good = false;
  const char* help = nullptr;
  if (!name.empty() && what == "tier") {
    TableTier tier{};
    help = "auto, resident or host";
    good = one_of(kTiers, value, &tier);
    std::erase_if(o->table_tiers, [&](const auto& t) { return good && t.first == name; });
    if (good) o->table_tiers.emplace_back(name, tier);
  } else if (!name.empty() && what == "miss") {
    help = "exact, default or fail";
    tiered::MissPolicy policy{};
    good = one_of(kPolicies, value, &policy);
    if (good) table_of(o, name)->miss = policy;
  } else if (!name.empty() && what == "default") {
    help = "a finite number, of every column";
    float fill = 0;
    good = parse_float(value, &fill);
    if (good) table_of(o, name)->fill = fill;
  } else if (!name.empty() && what == "update") {
    help = "refuse or stale";
    bool stale = false;
    good = one_of(kUpdates, value, &stale);
    if (good) table_of(o, name)->stale = stale;
  } else {
    return {Code::kNotFound, "unknown option " + in_quotes(key) + "; known: " + kTableKeys};
  }
  return good ? Status()
              : invalid_argument("option '" + printable(key) + "' is " + in_quotes(value) + ", expected " +
                                 help);
}

bool is_key_list(std::string_view s) { return parse_public_keys(std::string(s)).ok(); }

bool set_skip(ModelOptions& o, std::string_view s) {
  uint32_t passes = 0;
  if (s != "none" && !parse_skip(s, &passes)) return false;
  o.skip = s == "none" ? std::string() : std::string(s);
  return true;
}

bool set_fold(ModelOptions& o, std::string_view s) {
  if (s != "on" && s != "tiered" && s != "off") return false;
  o.fold = s != "off";
  o.fold_as_tiered = s == "tiered";
  return true;
}

std::string fold_text(const ModelOptions& o) { return !o.fold ? "off" : o.fold_as_tiered ? "tiered" : "on"; }

/// A kind that a list of devices says, where option device says none.
Status set_kind(ModelOptions* o, const std::string& kind) {
  if (kind.empty() || kind == o->device) return {};
  if (o->device != "auto")
    return invalid_argument("devices of two kinds: option device is '" + o->device + "', and '" + kind +
                            "' is named");
  o->device = kind;
  return {};
}

/// device, devices and store.peer_devices, whose errors name the device.
Status set_device_option(ModelOptions* o, std::string_view key, std::string_view value) {
  if (key == "device") {
    DeviceName d;
    DPI_RETURN_IF_ERROR(parse_device(value, &d));
    if (d.kind.empty())
      return invalid_argument("a number without its kind, as cuda:" + std::to_string(d.index));
    o->device = d.kind;
    if (d.index >= 0) o->device_index = d.index;
    return {};
  }
  const bool peers = key == "store.peer_devices";
  DeviceList list;
  if (!value.empty()) DPI_RETURN_IF_ERROR(parse_devices(value, peers, &list));
  DPI_RETURN_IF_ERROR(set_kind(o, list.kind));
  (peers ? o->peer_devices : o->devices) = std::move(list.indexes);
  return {};
}

/// So that the list of keys has them; set_device_option sets them.
OptionDef device_option(const char* key, std::string (*get)(const ModelOptions&)) {
  return {key, "", [](ModelOptions&, std::string_view) { return false; }, get};
}

std::vector<OptionDef> store_definitions() {
  using M = ModelOptions;
  return {
      tier_number<uint64_t>("store.host_bytes", "bytes, 0 = no tiers", &TierOptions::host_bytes, 0,
                            UINT64_MAX),
      tier_number<uint64_t>("store.gpu_bytes", "bytes, 0 = none", &TierOptions::gpu_bytes, 0, UINT64_MAX),
      number<uint64_t>("store.resident_bytes", "bytes", &M::resident_bytes, 0, UINT64_MAX),
      tier_number<int32_t>("store.fetch_threads", "1 .. 64", &TierOptions::fetch_threads, 1, 64),
      tier_number<int32_t>("store.fetch_queue", "1 .. 65536", &TierOptions::fetch_jobs, 1, 65536),
      tier_number<uint64_t>("store.fetch_bytes", "bytes, 65536 or more", &TierOptions::fetch_bytes, 65536,
                            UINT64_MAX),
      choice<bool>("store.share", "on or off", &M::share, {{"off", 0}, {"on", 1}}),
      device_option("store.peer_devices", [](const M& o) { return device_text(o.peer_devices); }),
      number<uint64_t>("store.peer_copy_bytes", "bytes, 0 = none", &M::peer_copy_bytes, 0, UINT64_MAX),
      tier_text("store.rocksdb_path", "an absolute folder", &TierOptions::rocksdb_path),
      word("store.rocksdb_reads", "pread, mmap or direct", &M::rocksdb_reads, {"pread", "mmap", "direct"}),
      tier_text("store.redis_address", "host:port, or several parted by commas", &TierOptions::redis_address),
      tier_text("store.hot_keys", "the path of a hot-key list, or off", &TierOptions::hot_keys),
      {"store.redis_password", "the server's password",
       [](M& o, std::string_view s) {
         o.tiers.redis_password = std::string(s);
         return true;
       },
       [](const M& o) { return std::string(o.tiers.redis_password.empty() ? "" : "(set)"); }},
  };
}

std::vector<OptionDef> all_definitions() {
  using M = ModelOptions;
  std::vector<OptionDef> all = {
      device_option("device", [](const M& o) { return o.device; }),
      number<int32_t>("device_index", "0 .. 1023", &M::device_index, 0, 1023),
      device_option("devices", [](const M& o) { return device_text(o.devices); }),
      choice<Precision>("precision", "fp32, tf32, fp16, bf16 or int8", &M::precision,
                        {{"fp32", 0}, {"tf32", 1}, {"fp16", 2}, {"bf16", 3}, {"int8", 4}}),
      number<int32_t>("threads", "1 .. 256", &M::threads, 1, 256),
      number<int32_t>("spin_us", "0 .. 10000", &M::spin_us, 0, 10000),
      choice<bool>("determinism", "default or strict", &M::strict, {{"default", 0}, {"strict", 1}}),
      choice<bool>("nonfinite", "refuse or return", &M::refuse_nonfinite, {{"return", 0}, {"refuse", 1}}),
      number<int64_t>("max_rows", "1 .. 1048576", &M::max_rows, 1, 1048576),
      number<int64_t>("max_nnz", "1 .. 268435456", &M::max_nnz, 1, 268435456),
      number<int32_t>("max_contexts", "1 .. 1024", &M::max_contexts, 1, 1024),
      {"debug.fold", "on, tiered or off", set_fold, fold_text},
      choice<bool>("debug.fuse", "on or off", &M::fuse, {{"off", 0}, {"on", 1}}),
      choice<ScheduleMode>("debug.schedule", "breadth, depth or single", &M::schedule,
                           {{"breadth", 0}, {"depth", 1}, {"single", 2}}),
      choice<StartOrder>("debug.order", "cost, ops or light", &M::order,
                         {{"cost", 0}, {"ops", 1}, {"light", 2}}),
      choice<bool>("verify", "off or golden", &M::verify_golden, {{"off", 0}, {"golden", 1}}),
      text("require_signature", "Ed25519 public keys of 64 hexadecimal digits, separated by commas",
           &M::require_signature),
      text("backend_dir", "an absolute folder", &M::backend_dir),
      number<uint64_t>("memory_limit", "bytes", &M::memory_limit, 0, UINT64_MAX),
      word("isa", "auto, scalar, avx2, avx512, avx512_bf16, avx512_vnni or amx", &M::isa,
           {"auto", "scalar", "avx2", "avx512", "avx512_bf16", "avx512_vnni", "amx"}),
      {"debug.skip",
       "none, or some of lookup, elementwise, merge, tail, hoist, attention, cin, mixture, with commas",
       set_skip, [](const M& o) { return o.skip.empty() ? std::string("none") : o.skip; }},
      choice<bool>("debug.graphs", "on or off", &M::graphs, {{"off", 0}, {"on", 1}}),
      number<int32_t>("in_flight", "1 .. 8", &M::in_flight, 1, 8),
      choice<bool>("debug.timestamps", "on or off", &M::timestamps, {{"off", 0}, {"on", 1}}),
      choice<bool>("small_batch", "on or off", &M::small_batch, {{"off", 0}, {"on", 1}}),
      word("debug.lookup", "auto, output_first or input_first", &M::lookup,
           {"auto", "output_first", "input_first"}),
      word("debug.fetch", "kernel, copy or in_place", &M::fetch, {"kernel", "copy", "in_place"}),
      text("tuning", "default, off or the path of a tuning table", &M::tuning),
  };
  for (OptionDef& d : store_definitions()) all.push_back(std::move(d));
  return all;
}

const std::vector<OptionDef>& definitions() {
  static const std::vector<OptionDef> kDefs = all_definitions();
  return kDefs;
}

const AtLoad g_definitions([] { definitions(); });

std::string_view group_of(std::string_view key) {
  const size_t dot = key.find('.');
  return dot == std::string_view::npos ? std::string_view() : key.substr(0, dot);
}

/// The keys of the group that `key` is of ("store.x"), and the groups there are: all keys are more than an
/// error's text holds.
std::string keys_like(std::string_view key) {
  std::vector<std::string_view> groups;
  for (const OptionDef& d : definitions()) {
    if (std::find(groups.begin(), groups.end(), group_of(d.key)) == groups.end())
      groups.push_back(group_of(d.key));
  }
  const bool known = std::find(groups.begin(), groups.end(), group_of(key)) != groups.end();
  const std::string_view group = known ? group_of(key) : std::string_view();
  std::string keys;
  for (const OptionDef& d : definitions()) {
    if (group_of(d.key) == group) keys += std::string(d.key) + ", ";
  }
  for (const std::string_view g : groups) {
    if (!g.empty() && g != group) keys += std::string(g) + ".*, ";
  }
  return keys + "table.NAME.*";
}

Status unknown_option(std::string_view key) {
  std::vector<std::string_view> keys;
  for (const OptionDef& d : definitions()) keys.push_back(d.key);
  return {Code::kNotFound,
          "unknown option " + in_quotes(key) + did_you_mean(key, keys) + "; known: " + keys_like(key)};
}

Status bad_value(const OptionDef& d, std::string_view value) {
  return invalid_argument("option '" + std::string(d.key) + "' is " + in_quotes(value) + ", expected " +
                          d.help);
}

}  // namespace

Status set_option(ModelOptions* options, std::string_view key, std::string_view value) {
  if (key.starts_with(kTablePrefix)) return set_table_option(options, key, value);
  const auto& all = definitions();
  const auto d = std::find_if(all.begin(), all.end(), [key](const OptionDef& o) { return key == o.key; });
  if (d == all.end()) return unknown_option(key);
  if (key == "require_signature" && !is_key_list(value)) return bad_value(*d, value);
  if (key == "device" || key == "devices" || key == "store.peer_devices") {
    Status set = set_device_option(options, key, value);
    if (set.ok()) return set;
    return invalid_argument(
        "option '" + std::string(key) + "' is " + in_quotes(value) + ": " + set.message() + "; expected " +
        (key == "device" ? "auto, ref, cpu, cuda, cuda:N or a plugin's name ([a-z0-9_], at most 32)"
                         : "numbers of devices with commas, as 0,1 or cuda:0,cuda:1"));
  }
  const bool is_folder = key == "backend_dir" || key == "store.rocksdb_path";
  if (is_folder && !value.starts_with('/')) return bad_value(*d, value);
  return d->set(*options, value) ? Status() : bad_value(*d, value);
}

std::vector<int32_t> devices_of(const ModelOptions& options) {
  return options.devices.empty() ? std::vector<int32_t>{options.device_index} : options.devices;
}

PlanOptions plan_options(const ModelOptions& options) {
  PlanOptions p;
  p.fold = options.fold;
  p.fold_as_tiered = options.fold_as_tiered;
  p.fuse = options.fuse;
  p.schedule = options.schedule;
  p.order = options.order;
  p.tiered = options.tiered;
  for (const auto& [name, tier] : options.table_tiers) {
    if (tier == TableTier::kHost) p.tiered.push_back(name);
  }
  if (!options.skip.empty()) parse_skip(options.skip, &p.skip);
  return p;
}

std::vector<std::pair<std::string, std::string>> option_values(const ModelOptions& options) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const auto& d : definitions()) values.emplace_back(d.key, d.get(options));
  for (const auto& [name, tier] : options.table_tiers)
    values.emplace_back("table." + name + ".tier", word_of(kTiers, tier));
  for (const TierOptions::Table& t : options.tiers.tables) {
    values.emplace_back("table." + t.name + ".miss", word_of(kPolicies, t.miss));
    values.emplace_back("table." + t.name + ".default", float_text(t.fill));
    values.emplace_back("table." + t.name + ".update", word_of(kUpdates, t.stale));
  }
  return values;
}

}  // namespace dpi
