// The interface between a stream and whoever serves the folder that it writes into: an endpoint, or a test.
// Any thread calls it; numbers are those of the files' names.
#pragma once

#include <cstdint>
#include <string>

#include "base/log.hpp"
#include "base/status.hpp"

namespace dpi::stream {

class Follower {
 public:
  virtual ~Follower() = default;
  /// Number of the version that serves, 0 = none.
  virtual uint64_t serving() const = 0;
  /// Why the file was refused; ok where it was not, or not looked at yet.
  virtual Status refusal(const std::string& path) const = 0;
  /// Something has come into the folder.
  virtual void look() = 0;
  /// Until this number or a higher one serves, at most so long.
  virtual void wait(uint64_t number, uint64_t deadline_ns) = 0;
  virtual void tell(LogLevel level, const std::string& text) const = 0;
};

}  // namespace dpi::stream
