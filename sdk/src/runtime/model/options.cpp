#include "runtime/model/options.hpp"

#include <charconv>
#include <functional>

#include "backend/abi/plugin.hpp"
#include "base/text.hpp"
#include "bundle/signature.hpp"

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

bool is_key_list(std::string_view s) { return parse_public_keys(std::string(s)).ok(); }

bool set_skip(ModelOptions& o, std::string_view s) {
  uint32_t passes = 0;
  if (s != "none" && !parse_skip(s, &passes)) return false;
  o.skip = s == "none" ? std::string() : std::string(s);
  return true;
}

bool set_device(ModelOptions& o, std::string_view s) {
  if (!backend::is_plugin_name(s)) return false;
  o.device = std::string(s);
  return true;
}

const std::vector<OptionDef>& definitions() {
  using M = ModelOptions;
  static const std::vector<OptionDef> kDefs = {
      {"device", "auto, ref, cpu, cuda or a plugin's name ([a-z0-9_], at most 32)", set_device,
       [](const M& o) { return o.device; }},
      number<int32_t>("device_index", "0 .. 1023", &M::device_index, 0, 1023),
      choice<Precision>("precision", "fp32, tf32, fp16 or bf16", &M::precision,
                        {{"fp32", 0}, {"tf32", 1}, {"fp16", 2}, {"bf16", 3}}),
      number<int32_t>("threads", "1 .. 256", &M::threads, 1, 256),
      choice<bool>("determinism", "default or strict", &M::strict, {{"default", 0}, {"strict", 1}}),
      choice<bool>("nonfinite", "refuse or return", &M::refuse_nonfinite, {{"return", 0}, {"refuse", 1}}),
      number<int64_t>("max_rows", "1 .. 1048576", &M::max_rows, 1, 1048576),
      number<int64_t>("max_nnz", "1 .. 268435456", &M::max_nnz, 1, 268435456),
      number<int32_t>("max_contexts", "1 .. 1024", &M::max_contexts, 1, 1024),
      choice<bool>("debug.fold", "on or off", &M::fold, {{"off", 0}, {"on", 1}}),
      choice<bool>("debug.fuse", "on or off", &M::fuse, {{"off", 0}, {"on", 1}}),
      choice<ScheduleMode>("debug.schedule", "breadth, depth or single", &M::schedule,
                           {{"breadth", 0}, {"depth", 1}, {"single", 2}}),
      choice<bool>("verify", "off or golden", &M::verify_golden, {{"off", 0}, {"golden", 1}}),
      text("require_signature", "Ed25519 public keys of 64 hexadecimal digits, separated by commas",
           &M::require_signature),
      text("backend_dir", "an absolute folder", &M::backend_dir),
      number<uint64_t>("memory_limit", "bytes", &M::memory_limit, 0, UINT64_MAX),
      word("isa", "auto, scalar, avx2 or avx512", &M::isa, {"auto", "scalar", "avx2", "avx512"}),
      {"debug.skip", "none, or some of lookup, elementwise, merge, tail separated by commas", set_skip,
       [](const M& o) { return o.skip.empty() ? std::string("none") : o.skip; }},
      choice<bool>("debug.graphs", "on or off", &M::graphs, {{"off", 0}, {"on", 1}}),
      number<int32_t>("in_flight", "1 .. 8", &M::in_flight, 1, 8),
      choice<bool>("debug.timestamps", "on or off", &M::timestamps, {{"off", 0}, {"on", 1}}),
      choice<bool>("small_batch", "on or off", &M::small_batch, {{"off", 0}, {"on", 1}}),
      word("debug.lookup", "auto, output_first or input_first", &M::lookup,
           {"auto", "output_first", "input_first"}),
      text("tuning", "default, off or the path of a tuning table", &M::tuning),
  };
  return kDefs;
}

Status bad_value(const OptionDef& d, std::string_view value) {
  return invalid_argument("option '" + std::string(d.key) + "' is " + in_quotes(value) + ", expected " +
                          d.help);
}

}  // namespace

Status set_option(ModelOptions* options, std::string_view key, std::string_view value) {
  std::string keys;
  for (const auto& d : definitions()) {
    if (key != d.key) {
      keys += (keys.empty() ? "" : ", ") + std::string(d.key);
      continue;
    }
    if (key == "require_signature" && !is_key_list(value)) return bad_value(d, value);
    if (key == "backend_dir" && !value.starts_with('/')) return bad_value(d, value);
    return d.set(*options, value) ? Status() : bad_value(d, value);
  }
  return {Code::kNotFound, "unknown option " + in_quotes(key) + "; known: " + keys};
}

PlanOptions plan_options(const ModelOptions& options) {
  PlanOptions p;
  p.fold = options.fold;
  p.fuse = options.fuse;
  p.schedule = options.schedule;
  p.tiered = options.tiered;
  if (!options.skip.empty()) parse_skip(options.skip, &p.skip);
  return p;
}

std::vector<std::pair<const char*, std::string>> option_values(const ModelOptions& options) {
  std::vector<std::pair<const char*, std::string>> values;
  for (const auto& d : definitions()) values.emplace_back(d.key, d.get(options));
  return values;
}

}  // namespace dpi
