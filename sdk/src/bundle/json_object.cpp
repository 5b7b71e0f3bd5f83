#include "bundle/json_object.hpp"

#include <cmath>

#include "base/text.hpp"

namespace dpi {

JsonObject::JsonObject(const Json& value, std::string where) : value_(&value), where_(std::move(where)) {
  if (!value.is_object()) fail(std::string("is a JSON ") + value.type_name() + ", expected an object");
}

void JsonObject::fail(Code code, const std::string& text) {
  if (status_.ok()) status_ = Status(code, where_.empty() ? text : where_ + ": " + text);
}

void JsonObject::wrong_type(const char* key, const std::string& expected) {
  const Json& found = (*value_)[key];
  const std::string shown = found.is_structured() ? found.type_name()
                            : found.is_string()   ? in_quotes(found.get_ref<const std::string&>())
                                                  : found.dump();
  fail(std::string(key) + " is " + shown + ", expected " + expected);
}

void JsonObject::wrong_value(const char* key, const std::string& found, const std::string& expected) {
  fail(std::string(key) + " is " + in_quotes(found) + ", expected one of " + expected);
}

const nlohmann::json* JsonObject::member(const char* key, Need need) {
  if (!value_->is_object()) return nullptr;
  known_.insert(key);
  const auto it = value_->find(key);
  if (it == value_->end()) {
    if (need == kRequired) fail(std::string(key) + " is missing");
    return nullptr;
  }
  return &*it;
}

bool JsonObject::integer(const char* key, int64_t lo, int64_t hi, int64_t* out, Need need) {
  const Json* found = member(key, need);
  if (found == nullptr) return false;
  int64_t v = 0;
  if (!json_int64(*found, &v) || v < lo || v > hi) {
    wrong_type(key, "an integer from " + std::to_string(lo) + " to " + std::to_string(hi));
    return false;
  }
  *out = v;
  return true;
}

bool JsonObject::number(const char* key, double* out, Need need) {
  const Json* found = member(key, need);
  if (found == nullptr) return false;
  if (!found->is_number() || !std::isfinite(found->get<double>())) {
    wrong_type(key, "a finite number");
    return false;
  }
  *out = found->get<double>();
  return true;
}

bool JsonObject::flag(const char* key, bool* out, Need need) {
  const Json* found = member(key, need);
  if (found == nullptr) return false;
  if (!found->is_boolean()) {
    wrong_type(key, "true or false");
    return false;
  }
  *out = found->get<bool>();
  return true;
}

bool JsonObject::text(const char* key, std::string* out, Need need) {
  const Json* found = member(key, need);
  if (found == nullptr) return false;
  if (!found->is_string()) {
    wrong_type(key, "a string");
    return false;
  }
  *out = found->get_ref<const std::string&>();
  return true;
}

const nlohmann::json* JsonObject::array(const char* key, size_t max_size, Need need) {
  const Json* found = member(key, need);
  if (found == nullptr) return nullptr;
  if (!found->is_array()) {
    wrong_type(key, "a list");
    return nullptr;
  }
  if (found->size() > max_size) {
    fail(std::string(key) + " has " + std::to_string(found->size()) + " entries, at most " +
         std::to_string(max_size) + " are allowed");
    return nullptr;
  }
  return found;
}

const nlohmann::json* JsonObject::object(const char* key, Need need) {
  const Json* found = member(key, need);
  if (found == nullptr) return nullptr;
  if (!found->is_object()) {
    wrong_type(key, "an object");
    return nullptr;
  }
  return found;
}

Status JsonObject::finish() {
  if (!status_.ok() || !value_->is_object()) return std::move(status_);
  for (const auto& entry : value_->items()) {
    if (known_.find(entry.key()) == known_.end())
      fail(Code::kUnsupported, "key " + in_quotes(entry.key()) + " is not known");
  }
  return std::move(status_);
}

Status JsonObject::finish_open() { return std::move(status_); }

bool json_int64(const nlohmann::json& value, int64_t* out) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) return false;
  *out = value.get<int64_t>();
  return true;
}

bool good_name(std::string_view name) {
  if (name.empty() || name.size() > 200) return false;
  for (char c : name) {
    const bool alnum = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (!alnum && std::string_view("_.-/ []:").find(c) == std::string_view::npos) return false;
  }
  return true;
}

}  // namespace dpi
