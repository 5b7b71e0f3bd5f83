// Nested JSON that stays JSON: provenance, and attributes of a form that no op takes. Written anew as it is
// read, without blanks and with the keys of each object sorted, so that equal values have equal texts.
#pragma once

#include <string>
#include <vector>

#include "bundle/manifest/json_reader.hpp"

namespace dpi {

/// Takes one object or list; take() is its text.
class JsonRewriter final : public JsonReader {
 public:
  void start(bool is_object);
  void key(std::string&& name) override { key_ = std::move(name); }
  void scalar(JsonScalar&& value) override;
  JsonReader* nested(bool is_object) override;
  void nested_end() override { close(); }
  std::string take();

 private:
  /// A member of an open object: `"key":value` lies from `begin` in text_, after a comma unless it is first.
  struct Piece {
    std::string key;
    size_t begin;
  };
  struct Open {
    bool is_object;
    bool sorted = true;
    bool empty = true;
    size_t begin;  // after the bracket
    std::vector<Piece> pieces;
  };

  void open(bool is_object);
  void begin_value();
  void close();
  void sort(const Open& object);

  std::string text_, key_;
  std::vector<Open> open_;
};

}  // namespace dpi
