#include "bundle/manifest/json_reader.hpp"

#include <set>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "base/text.hpp"

namespace dpi {
namespace {

using Library = nlohmann::json;  // its parser is used, never its values: their destructors may need memory

constexpr size_t kMaxDepth = 64;  // of what an object or list may lie in

/// Common to both passes: forwards the library's events to `Pass`, which has begin(is_object), end(),
/// name(key) and value(scalar), each but end() saying whether to go on.
template <class Pass>
class Events {
 public:
  bool null() { return self().value(nullptr); }
  bool boolean(bool v) { return self().value(v); }
  bool number_integer(int64_t v) { return self().value(v); }
  bool number_unsigned(uint64_t v) {
    if (v > static_cast<uint64_t>(INT64_MAX)) return self().value(v);
    return self().value(static_cast<int64_t>(v));
  }
  bool number_float(double v, const std::string&) { return self().value(v); }
  bool string(std::string& v) { return self().value(std::move(v)); }
  bool binary(Library::binary_t&) { return false; }  // not in text
  bool start_object(size_t) { return self().begin(true); }
  bool start_array(size_t) { return self().begin(false); }
  bool key(std::string& k) { return self().name(std::move(k)); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) { return false; }

 private:
  Pass& self() { return *static_cast<Pass*>(this); }
  bool close() {
    self().end();
    return true;
  }
};

struct Checking : Events<Checking> {
  bool begin(bool is_object) {
    if (open.empty())
      form = {is_object ? JsonKind::kObject : JsonKind::kList, is_object ? "object" : "array"};
    too_deep = open.size() > kMaxDepth;
    if (!too_deep) open.emplace_back();
    return !too_deep;
  }
  void end() { open.pop_back(); }
  bool name(std::string&& key) {
    const auto [at, is_new] = open.back().insert(std::move(key));
    if (!is_new && !is_twice) {
      is_twice = true;
      twice = *at;
    }
    return true;
  }
  bool value(const JsonScalar& v) {
    if (open.empty()) form.type = type_name(v);
    return true;
  }

  std::vector<std::set<std::string>> open;  // the keys so far of each open object
  JsonForm form;
  std::string twice;
  bool is_twice = false;
  bool too_deep = false;
};

struct Reading : Events<Reading> {
  explicit Reading(JsonReader* r) : root(r) {}
  bool begin(bool is_object) {
    open.push_back(open.empty() ? root : open.back()->nested(is_object));
    return true;
  }
  void end() {
    open.pop_back();
    if (!open.empty()) open.back()->nested_end();
  }
  bool name(std::string&& key) {
    open.back()->key(std::move(key));
    return true;
  }
  bool value(JsonScalar&& v) {
    if (!open.empty()) open.back()->scalar(std::move(v));
    return true;
  }

  JsonReader* root;
  std::vector<JsonReader*> open;
};

}  // namespace

const char* type_name(const JsonScalar& value) {
  constexpr const char* kNames[] = {"null", "boolean", "number", "number", "number", "string"};
  return kNames[value.index()];
}

bool number_of(const JsonScalar& value, double* out) {
  return std::visit(
      [out](const auto& v) {
        using V = std::decay_t<decltype(v)>;
        constexpr bool kNumber = std::is_arithmetic_v<V> && !std::is_same_v<V, bool>;
        if constexpr (kNumber) *out = static_cast<double>(v);
        return kNumber;
      },
      value);
}

Result<JsonForm> check_json(std::string_view text) {
  Checking pass;
  const bool sound = Library::sax_parse(text.begin(), text.end(), &pass);
  if (pass.too_deep) return bad_model("is nested deeper than " + std::to_string(kMaxDepth) + " levels");
  if (!sound) return bad_model("is not valid JSON in UTF-8");
  if (pass.is_twice) return bad_model("key " + in_quotes(pass.twice) + " is given twice in one object");
  return std::move(pass.form);
}

void read_json(std::string_view text, JsonReader* root) {
  Reading pass(root);
  Library::sax_parse(text.begin(), text.end(), &pass);
}

}  // namespace dpi
