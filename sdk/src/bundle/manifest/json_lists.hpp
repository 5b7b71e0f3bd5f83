// Readers of lists: of plain values, and of objects that become structs.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "bundle/manifest/json_object.hpp"

namespace dpi {

/// The value as T: a std::string, an integer that fits int64_t, or any number as double. False = another
/// type.
inline bool take_scalar(JsonScalar&& value, std::string* out) {
  auto* text = std::get_if<std::string>(&value);
  if (text != nullptr) *out = std::move(*text);
  return text != nullptr;
}
inline bool take_scalar(JsonScalar&& value, int64_t* out) {
  const auto* v = std::get_if<int64_t>(&value);
  if (v != nullptr) *out = *v;
  return v != nullptr;
}
inline bool take_scalar(JsonScalar&& value, double* out) { return number_of(value, out); }

/// A list of T. Keeps what comes before the first entry of another type, and at most `max` entries; counts
/// all.
template <class T>
class ValueList final : public JsonReader {
 public:
  explicit ValueList(size_t max) : max_(max) {}
  void start() {
    values.clear();
    size = 0;
    all_fit = true;
  }
  void scalar(JsonScalar&& value) override {
    ++size;
    if (!all_fit || size > max_) return;
    T v{};
    all_fit = take_scalar(std::move(value), &v);
    if (all_fit) values.push_back(std::move(v));
  }
  JsonReader* nested(bool) override {
    ++size;
    all_fit = false;
    return &skip_;
  }

  std::vector<T> values;
  size_t size = 0;
  bool all_fit = true;

 private:
  size_t max_;
  SkipReader skip_;
};

/// A list of objects with unique names: features, tables, ops, heads. `Entry` is an ObjectReader with
/// Result<T> take(), and `what` names one of them in texts. Stops at the first that is refused; counts all.
template <class T, class Entry>
class NamedList final : public JsonReader {
 public:
  NamedList(const char* what, size_t max) : what_(what), max_(max) {}
  void scalar(JsonScalar&& value) override {
    if (begin_entry()) add(no_object(type_name(value)));
  }
  JsonReader* nested(bool is_object) override {
    in_entry_ = begin_entry() && is_object;
    if (in_entry_) {
      entry_.start();
      return &entry_;
    }
    if (wanted()) add(no_object("array"));
    return &skip_;
  }
  void nested_end() override {
    if (in_entry_) add(entry_.take());
    in_entry_ = false;
  }

  std::vector<T> values;
  size_t size = 0;
  Status status;

 private:
  bool wanted() const { return status.ok() && size <= max_; }
  bool begin_entry() {
    ++size;
    return wanted();
  }
  Status no_object(const char* type) const {
    return bad_model(std::string(what_) + ": is a JSON " + type + ", expected an object");
  }
  void add(Result<T> entry) {
    if (!entry.ok()) {
      status = std::move(entry).status().within("entry " + std::to_string(size - 1));
    } else if (!good_name(entry->name)) {
      status = bad_model(std::string(what_) + " name " + in_quotes(entry->name) +
                         " is empty, too long or has characters that names may not have");
    } else if (!names_.insert(entry->name).second) {
      status = bad_model(std::string(what_) + " " + in_quotes(entry->name) + " is defined twice");
    } else {
      values.push_back(std::move(entry).value());
    }
  }

  const char* what_;
  size_t max_;
  Entry entry_;
  bool in_entry_ = false;
  std::set<std::string> names_;
  SkipReader skip_;
};

}  // namespace dpi
