// The members of one object of the manifest: gathered by an ObjectReader while its events come, in any order,
// then looked at by a JsonObject in the order that makes sense. The first thing wrong sticks; finish()
// reports it, or else a key that nobody asked for, which could change the meaning of what was read.
//
//   JsonObject o(members, "table 'age'");
//   o.integer("rows", 1, kMaxTableRows, &t.rows, JsonObject::kRequired);
//   DPI_RETURN_IF_ERROR(o.finish());
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "bundle/manifest/json_reader.hpp"

namespace dpi {

/// A member of an object; what an object or a list holds goes to a reader of its own.
struct JsonMember {
  JsonKind kind = JsonKind::kScalar;
  JsonScalar scalar;
};
using JsonMembers = std::map<std::string, JsonMember, std::less<>>;

/// Gathers members. Subclasses name the readers of the nested values that they know.
class ObjectReader : public JsonReader {
 public:
  /// Makes it ready for the next object.
  void start() { members_.clear(); }
  void key(std::string&& name) final { key_ = std::move(name); }
  void scalar(JsonScalar&& value) final { members_[std::move(key_)] = {JsonKind::kScalar, std::move(value)}; }
  JsonReader* nested(bool is_object) final;

 protected:
  const JsonMembers& members() const { return members_; }
  /// The reader of `key`'s content, made ready; null = nobody wants it.
  virtual JsonReader* member(std::string_view key, bool is_object) = 0;

 private:
  JsonMembers members_;
  std::string key_;
  SkipReader skip_;
};

class JsonObject {
 public:
  enum Need { kOptional, kRequired };

  /// `members` must outlive this object; `where` begins every text.
  JsonObject(const JsonMembers& members, std::string where) : members_(members), where_(std::move(where)) {}

  bool integer(const char* key, int64_t lo, int64_t hi, int64_t* out, Need need);
  bool number(const char* key, double* out, Need need);  // finite
  bool flag(const char* key, bool* out, Need need);
  bool text(const char* key, std::string* out, Need need);
  /// Is there a list of at most max_size entries? `size` is what its reader counted.
  bool list(const char* key, size_t size, size_t max_size, Need need);
  bool object(const char* key, Need need);

  /// One of the named values.
  template <class E>
  bool choice(const char* key, std::initializer_list<std::pair<const char*, E>> values, E* out, Need need) {
    std::string found;
    if (!text(key, &found, need)) return false;
    std::string names;
    for (const auto& [name, value] : values) {
      if (found == name) {
        *out = value;
        return true;
      }
      names += (names.empty() ? "" : ", ") + std::string(name);
    }
    wrong_value(key, found, names);
    return false;
  }
  /// One of `values`, each by its name_of.
  template <class E>
  bool choice(const char* key, std::initializer_list<E> values, E* out, Need need) {
    std::string found;
    if (!text(key, &found, need)) return false;
    std::string names;
    for (const E value : values) {
      if (found == name_of(value)) {
        *out = value;
        return true;
      }
      names += (names.empty() ? "" : ", ") + std::string(name_of(value));
    }
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
  /// The member, or null when it is absent (which is an error if it is required). Marks the key as known.
  const JsonMember* member(const char* key, Need need);
  void wrong_type(const char* key, const JsonMember& found, const std::string& expected);
  void wrong_value(const char* key, const std::string& found, const std::string& expected);

  const JsonMembers& members_;
  std::string where_;
  std::vector<std::string_view> known_;
  Status status_;
};

constexpr auto kRequired = JsonObject::kRequired, kOptional = JsonObject::kOptional;

/// 1 to 200 bytes of UTF-8: A-Z a-z 0-9 _ . - / space [ ] : and what is beyond ASCII and no control
/// (printable.hpp).
bool good_name(std::string_view name);

}  // namespace dpi
