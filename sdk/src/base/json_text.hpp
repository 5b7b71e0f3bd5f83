// Writing JSON text, without a tree: each piece is appended to one string, so that running out of memory is a
// plain exception. Bytes that are not UTF-8 become U+FFFD, characters that a terminal would act on are
// escaped (base/printable.hpp); nothing here refuses a text.
//
//   JsonWriter w;
//   w.begin_object();
//   w.field("name", model.name);
//   w.begin_list("heads"); ... w.end_list();
//   w.end_object();
//   return w.take();
//
// Who calls it: runtime/describe (all JSON of the library), bundle (values inside error texts). Load-time and
// on demand only: it allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

namespace dpi {

/// `text` in double quotes, escaped.
void append_json_string(std::string* out, std::string_view text);
/// Shortest digits that read back as `v`, always with a point or an exponent; null when it is not finite.
void append_json_number(std::string* out, double v);

/// A value that is neither object nor list. An integer is a number written without point and exponent;
/// uint64_t holds only those beyond int64_t.
using JsonScalar = std::variant<std::nullptr_t, bool, int64_t, uint64_t, double, std::string>;

/// The value as JSON text.
std::string json_text(const JsonScalar& value);

class JsonWriter {
 public:
  void begin_object() { open('{'); }
  void begin_object(std::string_view name) {
    key(name);
    open('{');
  }
  void end_object() { out_ += '}'; }
  void begin_list() { open('['); }
  void begin_list(std::string_view name) {
    key(name);
    open('[');
  }
  void end_list() { out_ += ']'; }

  void key(std::string_view name);
  /// A bool, a number or a text.
  template <class T>
  void value(const T& v) {
    separate();
    if constexpr (std::is_same_v<T, bool>) {
      out_ += v ? "true" : "false";
    } else if constexpr (std::is_floating_point_v<T>) {
      append_json_number(&out_, v);
    } else if constexpr (std::is_integral_v<T>) {
      out_ += std::to_string(v);
    } else {
      append_json_string(&out_, v);
    }
  }
  template <class T>
  void field(std::string_view name, const T& v) {
    key(name);
    value(v);
  }
  /// A value that is JSON text already.
  void field_json(std::string_view name, std::string_view json) {
    key(name);
    out_ += json;
  }

  std::string take() { return std::move(out_); }

 private:
  void open(char bracket) {
    separate();
    out_ += bracket;
  }
  /// The comma before a value or a key, where one is due: the last character tells.
  void separate();

  std::string out_;
};

}  // namespace dpi
