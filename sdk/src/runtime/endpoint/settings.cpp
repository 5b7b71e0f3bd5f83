#include "runtime/endpoint/settings.hpp"

#include <charconv>
#include <string>

namespace dpi {

namespace {

struct Number {
  const char* key;
  int64_t EndpointSettings::* field;
  int64_t least, most;
};

constexpr Number kNumbers[] = {
    {"keep_seconds", &EndpointSettings::keep_seconds, 0, 604800},
    {"warm_up_rows", &EndpointSettings::warm_up_rows, 0, 1048576},
    {"follow_ms", &EndpointSettings::follow_ms, 1, 3600000},
    {"back_off_ms", &EndpointSettings::back_off_ms, 1, 86400000},
    {"update.bytes_per_second", &EndpointSettings::bytes_per_second, 0, int64_t{1} << 40},
    {"update.spare_rows", &EndpointSettings::spare_rows, 0, 100},
};

Status bad_value(std::string_view key, std::string_view value, const std::string& allowed) {
  return invalid_argument(std::string(key) + " of an endpoint is '" + std::string(value) + "', expected " +
                          allowed);
}

}  // namespace

Status set_setting(EndpointSettings* settings, std::string_view key, std::string_view value) {
  if (key == "golden") {
    if (value != "on" && value != "off") return bad_value(key, value, "on or off");
    settings->golden = value == "on";
    return {};
  }
  for (const Number& n : kNumbers) {
    if (key != n.key) continue;
    int64_t v = 0;
    const auto [end, fault] = std::from_chars(value.data(), value.data() + value.size(), v);
    if (fault != std::errc() || end != value.data() + value.size() || v < n.least || v > n.most)
      return bad_value(key, value, std::to_string(n.least) + " .. " + std::to_string(n.most));
    settings->*n.field = v;
    return {};
  }
  std::string known = "golden";
  for (const Number& n : kNumbers) known += std::string(", ") + n.key;
  known += ", record.path, record.share, record.bytes, record.bytes_per_second";
  return {Code::kNotFound, "unknown key '" + std::string(key) + "' of an endpoint; known: " + known};
}

}  // namespace dpi
