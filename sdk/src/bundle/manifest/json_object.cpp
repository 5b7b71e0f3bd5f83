#include "bundle/manifest/json_object.hpp"

#include <algorithm>
#include <cmath>

#include "base/printable.hpp"
#include "base/text.hpp"

namespace dpi {

JsonReader* ObjectReader::nested(bool is_object) {
  const JsonKind kind = is_object ? JsonKind::kObject : JsonKind::kList;
  const auto at = members_.insert_or_assign(std::move(key_), JsonMember{kind, {}}).first;
  JsonReader* reader = member(at->first, is_object);
  return reader != nullptr ? reader : &skip_;
}

void JsonObject::fail(Code code, const std::string& text) {
  if (status_.ok()) status_ = Status(code, where_.empty() ? text : where_ + ": " + text);
}

void JsonObject::wrong_type(const char* key, const JsonMember& found, const std::string& expected) {
  const auto* text = std::get_if<std::string>(&found.scalar);
  const std::string shown = found.kind == JsonKind::kObject ? "object"
                            : found.kind == JsonKind::kList ? "array"
                            : text != nullptr               ? in_quotes(*text)
                                                            : json_text(found.scalar);
  fail(std::string(key) + " is " + shown + ", expected " + expected);
}

void JsonObject::wrong_value(const char* key, const std::string& found, const std::string& expected) {
  fail(std::string(key) + " is " + in_quotes(found) + ", expected one of " + expected);
}

const JsonMember* JsonObject::member(const char* key, Need need) {
  known_.emplace_back(key);
  const auto it = members_.find(key);
  if (it != members_.end()) return &it->second;
  if (need == kRequired) fail(std::string(key) + " is missing");
  return nullptr;
}

bool JsonObject::integer(const char* key, int64_t lo, int64_t hi, int64_t* out, Need need) {
  const JsonMember* found = member(key, need);
  if (found == nullptr) return false;
  const auto* v = std::get_if<int64_t>(&found->scalar);
  if (v == nullptr || *v < lo || *v > hi) {
    wrong_type(key, *found, "an integer from " + std::to_string(lo) + " to " + std::to_string(hi));
    return false;
  }
  *out = *v;
  return true;
}

bool JsonObject::number(const char* key, double* out, Need need) {
  const JsonMember* found = member(key, need);
  if (found == nullptr) return false;
  double v = 0;
  if (!number_of(found->scalar, &v) || !std::isfinite(v)) {
    wrong_type(key, *found, "a finite number");
    return false;
  }
  *out = v;
  return true;
}

bool JsonObject::flag(const char* key, bool* out, Need need) {
  const JsonMember* found = member(key, need);
  if (found == nullptr) return false;
  const auto* v = std::get_if<bool>(&found->scalar);
  if (v == nullptr) {
    wrong_type(key, *found, "true or false");
    return false;
  }
  *out = *v;
  return true;
}

bool JsonObject::text(const char* key, std::string* out, Need need) {
  const JsonMember* found = member(key, need);
  if (found == nullptr) return false;
  const auto* v = std::get_if<std::string>(&found->scalar);
  if (v == nullptr) {
    wrong_type(key, *found, "a string");
    return false;
  }
  *out = *v;
  return true;
}

bool JsonObject::list(const char* key, size_t size, size_t max_size, Need need) {
  const JsonMember* found = member(key, need);
  if (found == nullptr) return false;
  if (found->kind != JsonKind::kList) {
    wrong_type(key, *found, "a list");
    return false;
  }
  if (size <= max_size) return true;
  fail(std::string(key) + " has " + std::to_string(size) + " entries, at most " + std::to_string(max_size) +
       " are allowed");
  return false;
}

bool JsonObject::object(const char* key, Need need) {
  const JsonMember* found = member(key, need);
  if (found == nullptr) return false;
  if (found->kind == JsonKind::kObject) return true;
  wrong_type(key, *found, "an object");
  return false;
}

Status JsonObject::finish() {
  for (const auto& [key, value] : members_) {
    if (!status_.ok()) break;
    if (std::find(known_.begin(), known_.end(), key) == known_.end())
      fail(Code::kUnsupported, "key " + in_quotes(key) + " is not known");
  }
  return std::move(status_);
}

Status JsonObject::finish_open() { return std::move(status_); }

bool good_name(std::string_view name) {
  if (name.empty() || name.size() > 200) return false;
  while (!name.empty()) {
    const size_t n = utf8_length(name);
    const char c = name[0];
    const bool alnum = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    const bool good = n == 1  ? alnum || std::string_view("_.-/ []:").find(c) != std::string_view::npos
                      : n > 1 ? !is_control(code_point(name.substr(0, n)))
                              : false;
    if (!good) return false;
    name.remove_prefix(n);
  }
  return true;
}

}  // namespace dpi
