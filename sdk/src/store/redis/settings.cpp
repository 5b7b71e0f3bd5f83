#include "store/redis/settings.hpp"

#include <algorithm>
#include <charconv>

#include "base/text.hpp"

namespace dpi::redis {

const char kSettingNames[] =
    "address, user, password, replicas, connections, partitions, write_replicas, timeout_ms, "
    "connect_timeout_ms, write_timeout_ms, lease_ms, tls, tls_ca, tls_cert, tls_key";

namespace {

Status refused(std::string_view key, std::string_view value, const std::string& why) {
  return invalid_argument("setting '" + std::string(key) + "' is " + in_quotes(value) + ": " + why);
}

bool parse_number(std::string_view text, int64_t* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size();
}

template <class T>
Status number(std::string_view key, std::string_view value, int64_t low, int64_t high, T scale, T* out) {
  int64_t v = 0;
  if (!parse_number(value, &v) || v < low || v > high)
    return refused(key, value,
                   "expected a number from " + std::to_string(low) + " to " + std::to_string(high));
  *out = static_cast<T>(v) * scale;
  return {};
}

Status on_or_off(std::string_view key, std::string_view value, bool* out) {
  if (value != "on" && value != "off") return refused(key, value, "expected on or off");
  *out = value == "on";
  return {};
}

Status addresses(std::string_view value, std::vector<Address>* out) {
  for (size_t at = 0; at <= value.size();) {
    const size_t comma = std::min(value.find(',', at), value.size());
    std::string_view one = value.substr(at, comma - at);
    while (one.starts_with(' ')) one.remove_prefix(1);
    while (one.ends_with(' ')) one.remove_suffix(1);
    Address a;
    if (!parse_address(one, &a))
      return refused("address", value, "expected host:port, several parted by commas");
    out->push_back(std::move(a));
    at = comma + 1;
  }
  return {};
}

Status set_one(std::string_view key, std::string_view value, Settings* s) {
  constexpr uint64_t kMs = 1'000'000;
  constexpr int64_t kHour = 3'600'000;
  if (key == "address") return addresses(value, &s->seeds);
  if (key == "user") return s->user = value, ok_status();
  if (key == "password") return s->password = value, ok_status();
  if (key == "replicas") return on_or_off(key, value, &s->replicas);
  if (key == "connections") return number(key, value, 1, 1024, 1, &s->connections);
  if (key == "partitions") return number<int64_t>(key, value, 1, 1 << 20, 1, &s->partitions);
  if (key == "write_replicas") return number(key, value, 0, 64, 1, &s->write_replicas);
  if (key == "timeout_ms") return number(key, value, 1, kHour, kMs, &s->timeout_ns);
  if (key == "connect_timeout_ms") return number(key, value, 1, kHour, kMs, &s->connect_timeout_ns);
  if (key == "write_timeout_ms") return number(key, value, 1, kHour, kMs, &s->write_timeout_ns);
  if (key == "lease_ms") return number(key, value, 10, kHour, kMs, &s->lease_ns);
  if (key == "tls") return on_or_off(key, value, &s->tls);
  if (key == "tls_ca") return s->tls_ca = value, ok_status();
  if (key == "tls_cert") return s->tls_cert = value, ok_status();
  if (key == "tls_key") return s->tls_key = value, ok_status();
  return invalid_argument("setting " + in_quotes(key) + " is unknown; the settings are " + kSettingNames);
}

}  // namespace

std::string Address::text() const {
  const bool six = host.find(':') != std::string::npos;
  return (six ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

bool parse_address(std::string_view text, Address* out) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return false;
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  int64_t port = 0;
  const bool plain = std::all_of(host.begin(), host.end(), [](char c) { return c > ' ' && c < 127; });
  if (host.empty() || host.size() > 255 || !plain || !parse_number(text.substr(colon + 1), &port))
    return false;
  if (port < 1 || port > 65535) return false;
  *out = {std::string(host), static_cast<uint16_t>(port)};
  return true;
}

Result<Settings> parse_settings(const dpi_store_options& options) {
  Settings s;
  for (int32_t i = 0; i < options.n_settings; ++i)
    DPI_RETURN_IF_ERROR(set_one(options.settings[i].key, options.settings[i].value, &s));
  if (s.seeds.empty()) return invalid_argument("setting 'address' is missing: host:port of a server");
  if (!s.user.empty() && s.password.empty()) return invalid_argument("setting 'user' needs 'password'");
  if (!s.tls && !(s.tls_ca + s.tls_cert + s.tls_key).empty())
    return invalid_argument("settings 'tls_ca', 'tls_cert' and 'tls_key' need 'tls' on");
  if (s.tls_cert.empty() != s.tls_key.empty())
    return invalid_argument("settings 'tls_cert' and 'tls_key' need each other");
  if (s.connections == 0) s.connections = std::clamp(options.threads, 1, 64);
  return s;
}

}  // namespace dpi::redis
