// Typed access to one JSON object of the manifest. The first thing wrong sticks; finish() reports it, or else
// a key that nobody asked for, which could change the meaning of what was read.
//
//   JsonObject o(json, "table 'age'");
//   o.integer("rows", 1, kMaxRows, &t.rows, JsonObject::kRequired);
//   DPI_RETURN_IF_ERROR(o.finish());
#pragma once

#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/status.hpp"

namespace dpi {

class JsonObject {
 public:
  using Json = nlohmann::json;
  enum Need { kOptional, kRequired };

  /// `value` must outlive this object; `where` begins every text.
  JsonObject(const Json& value, std::string where);

  /// The member, or null when it is absent (which is an error if it is required). Marks the key as known.
  const Json* member(const char* key, Need need);
  bool integer(const char* key, int64_t lo, int64_t hi, int64_t* out, Need need);
  bool number(const char* key, double* out, Need need);  // finite
  bool flag(const char* key, bool* out, Need need);
  bool text(const char* key, std::string* out, Need need);
  const Json* array(const char* key, size_t max_size, Need need);
  const Json* object(const char* key, Need need);

  /// One of the named values.
  template <class E>
  bool choice(const char* key, std::initializer_list<std::pair<const char*, E>> values, E* out, Need need) {
    std::string found;
    if (!text(key, &found, need)) return false;
    for (const auto& [name, value] : values) {
      if (found == name) {
        *out = value;
        return true;
      }
    }
    std::string names;
    for (const auto& entry : values) names += (names.empty() ? "" : ", ") + std::string(entry.first);
    wrong_value(key, found, names);
    return false;
  }

  void fail(Code code, const std::string& text);
  void fail(const std::string& text) { fail(Code::kBadModel, text); }
  bool ok() const { return status_.ok(); }
  void rename(std::string where) { where_ = std::move(where); }

  Status finish();       // unknown keys are kUnsupported
  Status finish_open();  // unknown keys are ignored

 private:
  void wrong_type(const char* key, const std::string& expected);
  void wrong_value(const char* key, const std::string& found, const std::string& expected);

  const Json* value_;
  std::string where_;
  std::set<std::string, std::less<>> known_;
  Status status_;
};

/// An integer of JSON that fits int64.
bool json_int64(const nlohmann::json& value, int64_t* out);

/// 1 to 200 characters of A-Z a-z 0-9 _ . - / space [ ] :
bool good_name(std::string_view name);

}  // namespace dpi
