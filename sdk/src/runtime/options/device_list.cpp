#include "runtime/options/device_list.hpp"

#include <algorithm>
#include <charconv>

#include "backend/abi/plugin.hpp"
#include "backend/abi/registry.hpp"
#include "base/text.hpp"

namespace dpi {

namespace {

constexpr int32_t kMostIndex = 1023;
constexpr size_t kMostDevices = 64;

bool parse_index(std::string_view s, int32_t* out) {
  int32_t v = -1;
  const auto [end, ec] = std::from_chars(s.data(), s.data() + s.size(), v);
  if (ec != std::errc() || end != s.data() + s.size() || v < 0 || v > kMostIndex) return false;
  *out = v;
  return true;
}

bool is_number(std::string_view s) {
  return !s.empty() && s.find_first_not_of("0123456789") == std::string_view::npos;
}

/// auto may turn out to be cpu.
bool is_one_device(const std::string& kind) {
  const std::vector<std::string> built_in = backend::built_in_backends();
  return kind == "auto" || std::find(built_in.begin(), built_in.end(), kind) != built_in.end();
}

}  // namespace

Status parse_device(std::string_view text, DeviceName* out) {
  *out = {};
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos && parse_index(text, &out->index)) return {};
  const std::string_view kind = text.substr(0, colon);
  if (!backend::is_plugin_name(kind) || is_number(kind))
    return invalid_argument(in_quotes(text) + " is no device");
  out->kind = std::string(kind);
  if (colon == std::string_view::npos) return {};
  if (!parse_index(text.substr(colon + 1), &out->index))
    return invalid_argument(in_quotes(text) + " is no device: its number is 0 .. " +
                            std::to_string(kMostIndex));
  if (is_one_device(out->kind))
    return invalid_argument(in_quotes(text) + " is no device: " + out->kind + " has no numbers");
  return {};
}

Status parse_devices(std::string_view text, bool twice, DeviceList* out) {
  *out = {};
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    DeviceName d;
    DPI_RETURN_IF_ERROR(parse_device(text.substr(begin, end - begin), &d));
    if (d.index < 0) return invalid_argument("device '" + d.kind + "' has no number");
    if (!d.kind.empty() && !out->kind.empty() && d.kind != out->kind)
      return invalid_argument("devices of two kinds, '" + out->kind + "' and '" + d.kind + "'");
    if (!d.kind.empty()) out->kind = d.kind;
    if (!twice && std::find(out->indexes.begin(), out->indexes.end(), d.index) != out->indexes.end())
      return invalid_argument("device " + std::to_string(d.index) + " twice");
    out->indexes.push_back(d.index);
    begin = end + 1;
  }
  if (out->indexes.size() > kMostDevices)
    return invalid_argument(std::to_string(out->indexes.size()) + " devices, at most " +
                            std::to_string(kMostDevices));
  return {};
}

std::string device_text(const std::vector<int32_t>& indexes) {
  std::string text;
  for (const int32_t i : indexes) text += (text.empty() ? "" : ",") + std::to_string(i);
  return text;
}

}  // namespace dpi
