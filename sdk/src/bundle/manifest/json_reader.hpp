// The manifest's JSON as events. Each object and list of the text has a reader, which takes its members or
// entries in the order of the text and names the reader of whatever is nested in it; no tree of the text
// exists at any time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "base/json_text.hpp"
#include "base/status.hpp"

namespace dpi {

/// "null", "boolean", "number" or "string".
const char* type_name(const JsonScalar& value);

/// Any number as a double; false when it is none.
bool number_of(const JsonScalar& value, double* out);

/// Takes the content of one object or list.
class JsonReader {
 public:
  virtual ~JsonReader() = default;
  /// Objects only: the name of the value that comes next.
  virtual void key(std::string&& name) { (void)name; }
  virtual void scalar(JsonScalar&& value) = 0;
  /// An object or a list begins. Who takes its content; this reader itself may.
  virtual JsonReader* nested(bool is_object) = 0;
  /// The object or list that nested() announced last, and that is still open, is complete.
  virtual void nested_end() {}
};

/// Reads and forgets.
class SkipReader final : public JsonReader {
 public:
  void scalar(JsonScalar&&) override {}
  JsonReader* nested(bool) override { return this; }
};

enum class JsonKind { kScalar, kList, kObject };
struct JsonForm {
  JsonKind kind = JsonKind::kScalar;
  std::string type = "null";  // of the whole text: "array", "object", or as type_name says
};

/// Is the text JSON in UTF-8, nested at most 64 levels deep, and is no key given twice in one object? What
/// the readers see has passed this.
Result<JsonForm> check_json(std::string_view text);

/// Gives the content of the object or list that `text` is to `root`. The text must have passed check_json.
void read_json(std::string_view text, JsonReader* root);

}  // namespace dpi
