#include "runtime/stream/kafka/configuration.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "base/text.hpp"

namespace dpi::kafka {

namespace {

constexpr size_t kLongestFile = 64 * 1024;
constexpr int64_t kMiB = 1024 * 1024;

/// Not for the file: offsets are committed when their delta serves, and the rest is said elsewhere, or loads
/// code.
constexpr std::string_view kOurs[] = {
    "bootstrap.servers",        "metadata.broker.list", "group.id",
    "enable.auto.commit",       "auto.offset.reset",    "enable.partition.eof",
    "enable.auto.offset.store", "plugin.library.paths", "log.queue",
};

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t' || s.back() == '\r')) s.remove_suffix(1);
  return s;
}

/// librdkafka's texts quote the value.
bool is_secret(std::string_view key) {
  for (const char* part : {"password", "secret", "pem", "sasl.oauthbearer.config", "keytab"})
    if (key.find(part) != std::string_view::npos) return true;
  return false;
}

Status set(rd_kafka_conf_t* c, const std::string& key, const std::string& value, const std::string& where) {
  char why[256] = "";
  if (rd_kafka_conf_set(c, key.c_str(), value.c_str(), why, sizeof why) == RD_KAFKA_CONF_OK) return {};
  return invalid_argument(where + "property " + in_quotes(key) + ": " +
                          (is_secret(key) ? std::string("librdkafka refuses its value") : std::string(why)));
}

Status set_line(rd_kafka_conf_t* c, std::string_view line, const std::string& where) {
  line = trimmed(line);
  if (line.empty() || line.front() == '#') return {};
  const size_t equals = line.find('=');
  if (equals == std::string_view::npos || equals == 0)
    return invalid_argument(where + "expected key=value");  // the line may be a secret
  const std::string key(trimmed(line.substr(0, equals)));
  if (std::find(std::begin(kOurs), std::end(kOurs), key) != std::end(kOurs))
    return invalid_argument(where + "property " + in_quotes(key) + " is not for the file");
  return set(c, key, std::string(trimmed(line.substr(equals + 1))), where);
}

Status set_file(rd_kafka_conf_t* c, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kLongestFile + 1, '\0');
  if (!file.is_open())
    return Status(Code::kIo, "properties " + in_quotes(path) + ": " + std::strerror(errno)).native(errno);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return {Code::kIo, "properties " + in_quotes(path) + " cannot be read"};
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kLongestFile)
    return invalid_argument("properties " + in_quotes(path) + " has more than 64 KiB");
  int64_t number = 1;
  for (size_t at = 0; at < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', at), text.size());
    DPI_RETURN_IF_ERROR(
        set_line(c, std::string_view(text).substr(at, end - at), path + ":" + std::to_string(number) + ": "));
    at = end + 1;
  }
  return {};
}

/// Memory: what waits for next() is at most one message of max_bytes or as much in smaller ones, and one
/// answer of a broker is at most as long.
Status set_defaults(rd_kafka_conf_t* c, int64_t max_bytes) {
  const int64_t answer = std::max(max_bytes, 2 * kMiB);
  const std::pair<const char*, std::string> defaults[] = {
      {"client.id", "dpi"},
      {"queued.max.messages.kbytes", std::to_string(std::max<int64_t>(max_bytes / 1024, 1024))},
      {"queued.min.messages", "16"},
      {"fetch.max.bytes", std::to_string(answer)},
      {"receive.message.max.bytes", std::to_string(answer + kMiB)},
      {"reconnect.backoff.ms", "100"},
      {"reconnect.backoff.max.ms", "2000"},
      {"socket.keepalive.enable", "true"},
      {"check.crcs", "true"},
      {"allow.auto.create.topics", "false"},
  };
  for (const auto& [key, value] : defaults) DPI_RETURN_IF_ERROR(set(c, key, value, ""));
  return {};
}

}  // namespace

Result<Configuration> configure(const dpi_stream_options& options) {
  Configuration c(rd_kafka_conf_new());
  DPI_RETURN_IF_ERROR(set_defaults(c.get(), options.max_bytes));
  if (*options.properties != '\0') DPI_RETURN_IF_ERROR(set_file(c.get(), options.properties));
  const std::pair<const char*, const char*> ours[] = {
      {"bootstrap.servers", options.address},
      {"group.id", options.group},
      {"enable.auto.commit", "false"},
      {"enable.auto.offset.store", "false"},
      {"auto.offset.reset", "earliest"},
      {"enable.partition.eof", "true"},
      {"log.queue", "true"},
  };
  for (const auto& [key, value] : ours) DPI_RETURN_IF_ERROR(set(c.get(), key, value, ""));
  return c;
}

}  // namespace dpi::kafka
