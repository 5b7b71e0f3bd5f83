// Where a stream is, as a text of the user's:
//
//   kafka://host:9092,other:9092/topic/0?group=ctr-eu-7&properties=/etc/ctr/kafka.properties&max_bytes=67108864
//
// The scheme names the plugin. The partition may be left out (0), and so may every setting. %41 stands for a
// byte. There are no passwords in it: they are in the file of properties.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace dpi::stream {

struct StreamUrl {
  std::string plugin, address, topic;
  int32_t partition = 0;
  std::string group;       // "" = the endpoint chooses
  std::string properties;  // a path; "" = none
  int64_t max_bytes = int64_t{64} << 20;

  /// Without settings: for messages and the status.
  std::string place() const;
};

/// kInvalidArgument says what is expected.
Result<StreamUrl> parse_stream_url(std::string_view text);

}  // namespace dpi::stream
