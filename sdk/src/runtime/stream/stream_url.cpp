#include "runtime/stream/stream_url.hpp"

#include <algorithm>
#include <charconv>
#include <span>

#include "base/text.hpp"

namespace dpi::stream {

namespace {

constexpr size_t kLongestTopic = 249, kLongestGroup = 255;
constexpr int64_t kLeastBytes = 1024, kMostBytes = int64_t{1} << 30;

Status refused(const std::string& why) {
  return invalid_argument("the stream's address: " + why +
                          "; expected kafka://host:port[,host:port]/topic[/partition][?group=...&"
                          "properties=FILE&max_bytes=N]");
}

/// False where a % is not followed by two hex digits that make no NUL.
bool decode(std::string_view text, std::string* out) {
  for (size_t i = 0; i < text.size(); ++i) {
    std::byte byte{};
    if (text[i] != '%') {
      *out += text[i];
    } else if (parse_hex(text.substr(i + 1, 2), std::span(&byte, 1)) && byte != std::byte{0}) {
      *out += static_cast<char>(byte);
      i += 2;
    } else {
      return false;
    }
  }
  return true;
}

template <class T>
bool number(std::string_view text, int64_t least, int64_t most, T* out) {
  int64_t v = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (fault != std::errc() || end != text.data() + text.size() || v < least || v > most) return false;
  *out = static_cast<T>(v);
  return true;
}

bool is_topic(std::string_view text) {
  return !text.empty() && text.size() <= kLongestTopic && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

Status set_one(StreamUrl* url, std::string_view key, const std::string& value) {
  if (key == "group") {
    if (value.empty() || value.size() > kLongestGroup) return refused("group has 1 .. 255 bytes");
    url->group = value;
  } else if (key == "properties") {
    if (value.empty()) return refused("properties is empty");
    url->properties = value;
  } else if (key == "max_bytes") {
    if (!number(value, kLeastBytes, kMostBytes, &url->max_bytes))
      return refused("max_bytes is " + in_quotes(value) + ", 1024 .. 1073741824");
  } else {
    return refused("unknown setting " + in_quotes(key));
  }
  return {};
}

Status set_all(StreamUrl* url, std::string_view settings) {
  while (!settings.empty()) {
    const size_t end = std::min(settings.find('&'), settings.size());
    const std::string_view one = settings.substr(0, end);
    const size_t equals = one.find('=');
    std::string value;
    if (equals == std::string_view::npos || !decode(one.substr(equals + 1), &value))
      return refused("setting " + in_quotes(one) + " is not key=value");
    DPI_RETURN_IF_ERROR(set_one(url, one.substr(0, equals), value));
    settings.remove_prefix(std::min(end + 1, settings.size()));
  }
  return {};
}

}  // namespace

std::string StreamUrl::place() const {
  return plugin + "://" + address + "/" + topic + "/" + std::to_string(partition);
}

Result<StreamUrl> parse_stream_url(std::string_view text) {
  StreamUrl url;
  const size_t scheme = text.find("://");
  if (scheme == std::string_view::npos || scheme == 0) return refused(in_quotes(text) + " has no scheme");
  url.plugin = text.substr(0, scheme);
  std::string_view rest = text.substr(scheme + 3);
  const size_t question = std::min(rest.find('?'), rest.size());
  const std::string_view settings = rest.substr(std::min(question + 1, rest.size()));
  rest = rest.substr(0, question);
  const size_t slash = std::min(rest.find('/'), rest.size());
  url.address = rest.substr(0, slash);
  if (url.address.empty()) return refused("no host");
  if (url.address.find('@') != std::string::npos)
    return refused("user and password belong into the file of properties");
  rest = rest.substr(std::min(slash + 1, rest.size()));
  const size_t second = std::min(rest.find('/'), rest.size());
  url.topic = rest.substr(0, second);
  if (!is_topic(url.topic)) return refused("topic " + in_quotes(url.topic) + " is none");
  if (second < rest.size() && !number(rest.substr(second + 1), 0, INT32_MAX, &url.partition))
    return refused("partition " + in_quotes(rest.substr(second + 1)) + " is none");
  DPI_RETURN_IF_ERROR(set_all(&url, settings));
  return url;
}

}  // namespace dpi::stream
