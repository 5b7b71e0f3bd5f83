#include "runtime/options/options.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>

#include "backend/abi/plugin.hpp"
#include "base/at_load.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"
#include "bundle/signature.hpp"
#include "runtime/options/device_list.hpp"

namespace dpi {

namespace {

struct OptionDef;

/// How an option is set from text, and printed. `set` checks the value. `allowed` is what an error says of a
/// value that is refused, where the definition's `values` say too little.
struct Access {
  std::function<Status(ModelOptions&, const OptionDef&, std::string_view)> set;
  std::function<std::string(const ModelOptions&, const OptionDef&)> get;
  const char* allowed = nullptr;
};

/// One line of options.def.
struct OptionDef {
  const char* key;
  const char* values;
  Access access;
};

constexpr std::string_view kBar = " | ";
constexpr std::string_view kTo = " ...";

/// The words of "a | b | c".
std::vector<std::string_view> words_of(std::string_view values) {
  std::vector<std::string_view> words;
  for (size_t at = 0; at != std::string_view::npos;) {
    const size_t bar = values.find(kBar, at);
    words.push_back(values.substr(at, bar == std::string_view::npos ? bar : bar - at));
    at = bar == std::string_view::npos ? bar : bar + kBar.size();
  }
  return words;
}

/// The position of a word in "a | b | c", -1 if it is none of them.
int position_of(std::string_view values, std::string_view word) {
  const auto words = words_of(values);
  const auto at = std::find(words.begin(), words.end(), word);
  return at == words.end() ? -1 : static_cast<int>(at - words.begin());
}

std::string word_at(std::string_view values, int position) {
  return std::string(words_of(values)[static_cast<size_t>(position)]);
}

/// "a | b | c" as "a, b or c", "1 ... 8" as "1 .. 8": how an error names what is allowed.
std::string allowed_of(const OptionDef& d) {
  if (d.access.allowed != nullptr) return d.access.allowed;
  const auto words = words_of(d.values);
  std::string text;
  for (size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + std::string(words[i]);
  const size_t to = text.find(kTo);
  if (to == std::string::npos) return text;
  return text.substr(0, to) +
         (to + kTo.size() == text.size() ? " or more" : " .." + text.substr(to + kTo.size()));
}

Status bad_value(const OptionDef& d, std::string_view value) {
  return invalid_argument("option '" + std::string(d.key) + "' is " + in_quotes(value) + ", expected " +
                          allowed_of(d));
}

/// The end of a setter: OK, or the error about a value that it refused.
Status taken_if(bool good, const OptionDef& d, std::string_view value) {
  return good ? Status() : bad_value(d, value);
}

template <class T>
bool parse_number(std::string_view s, T lo, T hi, T* out) {
  T v{};
  const auto [end, ec] = std::from_chars(s.data(), s.data() + s.size(), v);
  if (ec != std::errc() || end != s.data() + s.size() || v < lo || v > hi) return false;
  *out = v;
  return true;
}

/// A number between the bounds of "1 ... 8" or "8 ..."; any number from 0 on where `values` has none.
template <class T>
bool parse_within(std::string_view values, std::string_view s, T* out) {
  T lo = 0, hi = std::numeric_limits<T>::max();
  if (const size_t to = values.find(kTo); to != std::string_view::npos) {
    std::from_chars(values.data(), values.data() + to, lo);
    if (values.size() > to + kTo.size())
      std::from_chars(values.data() + to + kTo.size() + 1, values.data() + values.size(), hi);
  }
  return parse_number(s, lo, hi, out);
}

template <class Options, class T>
auto& member(Options& o, T ModelOptions::* field) {
  return o.*field;
}

template <class Options, class T>
auto& member(Options& o, T TierOptions::* field) {
  return o.tiers.*field;
}

template <class Owner, class T>
Access number(T Owner::* field) {
  return {[=](ModelOptions& o, const OptionDef& d, std::string_view s) {
            return taken_if(parse_within(d.values, s, &member(o, field)), d, s);
          },
          [=](const ModelOptions& o, const OptionDef&) { return std::to_string(member(o, field)); }};
}

/// A text that `good` accepts.
template <class Owner>
Access checked_text(std::string Owner::* field, bool (*good)(const OptionDef&, std::string_view),
                    const char* allowed = nullptr) {
  return {[=](ModelOptions& o, const OptionDef& d, std::string_view s) {
            if (!good(d, s)) return bad_value(d, s);
            member(o, field) = std::string(s);
            return Status();
          },
          [=](const ModelOptions& o, const OptionDef&) { return member(o, field); }, allowed};
}

template <class Owner>
Access text(std::string Owner::* field) {
  return checked_text(field, [](const OptionDef&, std::string_view) { return true; });
}

template <class Owner>
Access word(std::string Owner::* field) {
  return checked_text(field,
                      [](const OptionDef& d, std::string_view s) { return position_of(d.values, s) >= 0; });
}

/// The table's values abbreviate the names: `neon[_dot|_mmla]`.
Access instruction_set(std::string ModelOptions::* field) {
  return checked_text(
      field,
      [](const OptionDef&, std::string_view s) {
        constexpr std::string_view kNames =
            "auto | scalar | avx2 | avx512 | avx512_bf16 | avx512_vnni | amx | neon | neon_dot | neon_mmla";
        return position_of(kNames, s) >= 0;
      },
      "auto, scalar, avx2, avx512, avx512_bf16, avx512_vnni, amx, neon, neon_dot or neon_mmla");
}

template <class Owner>
Access folder(std::string Owner::* field) {
  return checked_text(
      field, [](const OptionDef&, std::string_view s) { return s.starts_with('/'); }, "an absolute folder");
}

Access public_keys(std::string ModelOptions::* field) {
  return checked_text(
      field, [](const OptionDef&, std::string_view s) { return parse_public_keys(std::string(s)).ok(); },
      "Ed25519 public keys of 64 hexadecimal digits, separated by commas");
}

/// Printed only as set or not.
Access secret(std::string TierOptions::* field) {
  Access access = text(field);
  access.get = [=](const ModelOptions& o, const OptionDef&) {
    return std::string(member(o, field).empty() ? "" : "(set)");
  };
  return access;
}

/// An enumeration or a bool: the value is the word's position.
template <class Owner, class T>
Access choice(T Owner::* field) {
  return {[=](ModelOptions& o, const OptionDef& d, std::string_view s) {
            const int at = position_of(d.values, s);
            if (at >= 0) member(o, field) = static_cast<T>(at);
            return taken_if(at >= 0, d, s);
          },
          [=](const ModelOptions& o, const OptionDef& d) {
            return word_at(d.values, static_cast<int>(member(o, field)));
          }};
}

/// One of two words, of which the first means true.
Access first_word(bool ModelOptions::* field) {
  return {[=](ModelOptions& o, const OptionDef& d, std::string_view s) {
            const int at = position_of(d.values, s);
            if (at >= 0) o.*field = at == 0;
            return taken_if(at >= 0, d, s);
          },
          [=](const ModelOptions& o, const OptionDef& d) { return word_at(d.values, o.*field ? 0 : 1); }};
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

/// The settings of one table, added at their first use.
TierOptions::Table* table_of(ModelOptions* o, std::string_view name) {
  auto& tables = o->tiers.tables;
  const auto at =
      std::find_if(tables.begin(), tables.end(), [name](const auto& t) { return t.name == name; });
  if (at != tables.end()) return &*at;
  tables.push_back({std::string(name), tiered::MissPolicy::kExact, 0.0f, false});
  return &tables.back();
}

/// An option of one table; `position`: the word's, -1 if it is none.
struct TableOptionDef {
  OptionDef text;
  bool (*set)(ModelOptions*, std::string_view table, int position, std::string_view value);
};

bool set_tier(ModelOptions* o, std::string_view table, int position, std::string_view /*value*/) {
  if (position < 0) return false;
  std::erase_if(o->table_tiers, [&](const auto& t) { return t.first == table; });
  o->table_tiers.emplace_back(table, static_cast<TableTier>(position));
  return true;
}

bool set_miss(ModelOptions* o, std::string_view table, int position, std::string_view /*value*/) {
  if (position >= 0) table_of(o, table)->miss = static_cast<tiered::MissPolicy>(position);
  return position >= 0;
}

bool set_default(ModelOptions* o, std::string_view table, int /*position*/, std::string_view value) {
  float fill = 0;
  if (!parse_float(value, &fill)) return false;
  table_of(o, table)->fill = fill;
  return true;
}

bool set_update(ModelOptions* o, std::string_view table, int position, std::string_view /*value*/) {
  if (position >= 0) table_of(o, table)->stale = position == 1;
  return position >= 0;
}

std::vector<TableOptionDef> all_table_definitions() {
  return {
#define DPI_OPTION(...)
#define DPI_TABLE_OPTION(key, values, fallback, clause, set) {{key, values, {}}, set},
#include "runtime/options/options.def"
#undef DPI_OPTION
#undef DPI_TABLE_OPTION
  };
}

const std::vector<TableOptionDef>& table_definitions() {
  static const std::vector<TableOptionDef> kDefs = all_table_definitions();
  return kDefs;
}

constexpr std::string_view kTablePrefix = "table.";
constexpr std::string_view kTableName = "table.NAME.";

/// The definition of "tier", "miss", "default" or "update"; null for another word.
const TableOptionDef* table_definition(std::string_view what) {
  for (const TableOptionDef& d : table_definitions()) {
    if (std::string_view(d.text.key).substr(kTableName.size()) == what) return &d;
  }
  return nullptr;
}

/// "table.NAME.what", whose name may have dots of its own.
Status set_table_option(ModelOptions* o, std::string_view key, std::string_view value) {
  const size_t dot = key.rfind('.');
  const std::string_view name =
      dot > kTablePrefix.size() ? key.substr(kTablePrefix.size(), dot - kTablePrefix.size()) : "";
  const TableOptionDef* const d = name.empty() ? nullptr : table_definition(key.substr(dot + 1));
  if (d == nullptr) {
    std::string keys;
    for (const TableOptionDef& one : table_definitions())
      keys += (keys.empty() ? "" : ", ") + std::string(one.text.key);
    return {Code::kNotFound, "unknown option " + in_quotes(key) + "; known: " + keys};
  }
  if (d->set(o, name, position_of(d->text.values, value), value)) return {};
  return invalid_argument("option '" + printable(key) + "' is " + in_quotes(value) + ", expected " +
                          (d->set == set_default ? "a finite number, of every column" : allowed_of(d->text)));
}

Status set_skip(ModelOptions& o, const OptionDef& d, std::string_view s) {
  uint32_t passes = 0;
  if (s != "none" && !parse_skip(s, &passes)) return bad_value(d, s);
  o.skip = s == "none" ? std::string() : std::string(s);
  return {};
}

constexpr const char* kSkipHelp =
    "none, or some of lookup, elementwise, merge, tail, hoist, attention, cin, mixture, with commas";

std::string skip_text(const ModelOptions& o, const OptionDef& /*d*/) {
  return o.skip.empty() ? std::string("none") : o.skip;
}

Status set_fold(ModelOptions& o, const OptionDef& d, std::string_view s) {
  if (position_of(d.values, s) < 0) return bad_value(d, s);
  o.fold = s != "off";
  o.fold_as_tiered = s == "tiered";
  return {};
}

std::string fold_text(const ModelOptions& o, const OptionDef& /*d*/) {
  return !o.fold ? "off" : o.fold_as_tiered ? "tiered" : "on";
}

/// A kind that a list of devices says, where option device says none.
Status set_kind(ModelOptions* o, const std::string& kind) {
  if (kind.empty() || kind == o->device) return {};
  if (o->device != "auto")
    return invalid_argument("devices of two kinds: option device is '" + o->device + "', and '" + kind +
                            "' is named");
  o->device = kind;
  return {};
}

Status bad_device(const OptionDef& d, std::string_view value, const Status& why,
                  const std::string& expected) {
  return invalid_argument("option '" + std::string(d.key) + "' is " + in_quotes(value) + ": " +
                          why.message() + "; expected " + expected);
}

Status take_device(ModelOptions* o, std::string_view value) {
  DeviceName d;
  DPI_RETURN_IF_ERROR(parse_device(value, &d));
  if (d.kind.empty())
    return invalid_argument("a number names no device type, write cuda:" + std::to_string(d.index));
  o->device = d.kind;
  if (d.index >= 0) o->device_index = d.index;
  return {};
}

/// Option device.
Access one_device() {
  return {[](ModelOptions& o, const OptionDef& d, std::string_view s) {
            const Status taken = take_device(&o, s);
            return taken.ok()
                       ? taken
                       : bad_device(
                             d, s, taken,
                             "auto, ref, cpu, cuda, cuda:N or a plugin's name ([a-z0-9_], at most 32)");
          },
          [](const ModelOptions& o, const OptionDef&) { return o.device; }};
}

Status take_devices(ModelOptions* o, std::vector<int32_t> ModelOptions::* field, bool twice,
                    std::string_view value) {
  DeviceList list;
  if (!value.empty()) DPI_RETURN_IF_ERROR(parse_devices(value, twice, &list));
  DPI_RETURN_IF_ERROR(set_kind(o, list.kind));
  o->*field = std::move(list.indexes);
  return {};
}

/// Options devices and store.peer_devices.
Access several_devices(std::vector<int32_t> ModelOptions::* field, bool twice) {
  return {[=](ModelOptions& o, const OptionDef& d, std::string_view s) {
            const Status taken = take_devices(&o, field, twice, s);
            return taken.ok()
                       ? taken
                       : bad_device(d, s, taken, "numbers of devices with commas, as 0,1 or cuda:0,cuda:1");
          },
          [=](const ModelOptions& o, const OptionDef&) { return device_text(o.*field); }};
}

std::vector<OptionDef> all_definitions() {
  using M = ModelOptions;
  return {
#define DPI_OPTION(key, values, fallback, clause, ...) {key, values, __VA_ARGS__},
#define DPI_TABLE_OPTION(...)
#include "runtime/options/options.def"
#undef DPI_OPTION
#undef DPI_TABLE_OPTION
  };
}

const std::vector<OptionDef>& definitions() {
  static const std::vector<OptionDef> kDefs = all_definitions();
  return kDefs;
}

const AtLoad g_definitions([] {
  definitions();
  table_definitions();
});

std::string_view group_of(std::string_view key) {
  const size_t dot = key.find('.');
  return dot == std::string_view::npos ? std::string_view() : key.substr(0, dot);
}

/// The keys of the group that `key` is of, as "store.{share, down}", and the other groups: all keys in full
/// are more than an error's text holds.
std::string keys_like(std::string_view key) {
  std::vector<std::string_view> groups;
  for (const OptionDef& d : definitions()) {
    if (std::find(groups.begin(), groups.end(), group_of(d.key)) == groups.end())
      groups.push_back(group_of(d.key));
  }
  const bool known = std::find(groups.begin(), groups.end(), group_of(key)) != groups.end();
  const std::string_view group = known ? group_of(key) : std::string_view();
  std::string keys = group.empty() ? "" : std::string(group) + ".{";
  const size_t prefix = group.empty() ? 0 : group.size() + 1;
  for (const OptionDef& d : definitions()) {
    if (group_of(d.key) == group) keys += std::string(std::string_view(d.key).substr(prefix)) + ", ";
  }
  if (!group.empty()) keys.replace(keys.size() - 2, 2, "}, ");
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

}  // namespace

Status set_option(ModelOptions* options, std::string_view key, std::string_view value) {
  if (key.starts_with(kTablePrefix)) return set_table_option(options, key, value);
  const auto& all = definitions();
  const auto d = std::find_if(all.begin(), all.end(), [key](const OptionDef& o) { return key == o.key; });
  if (d == all.end()) return unknown_option(key);
  return d->access.set(*options, *d, value);
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

std::span<const OptionText> option_texts() {
  static constexpr OptionText kTexts[] = {
#define DPI_OPTION(key, values, fallback, clause, ...) {key, values, fallback, clause},
#define DPI_TABLE_OPTION(key, values, fallback, clause, set) {key, values, fallback, clause},
#include "runtime/options/options.def"
#undef DPI_OPTION
#undef DPI_TABLE_OPTION
  };
  return kTexts;
}

std::vector<std::pair<std::string, std::string>> option_values(const ModelOptions& options) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const auto& d : definitions()) values.emplace_back(d.key, d.access.get(options, d));
  const auto add = [&](const std::string& table, std::string_view what, int position) {
    const TableOptionDef& d = *table_definition(what);
    values.emplace_back("table." + table + "." + std::string(what), word_at(d.text.values, position));
  };
  for (const auto& [name, tier] : options.table_tiers) add(name, "tier", static_cast<int>(tier));
  for (const TierOptions::Table& t : options.tiers.tables) {
    add(t.name, "miss", static_cast<int>(t.miss));
    values.emplace_back("table." + t.name + ".default", float_text(t.fill));
    add(t.name, "update", t.stale ? 1 : 0);
  }
  return values;
}

}  // namespace dpi
