// How a command fails: the exit codes and the error that carries one.
#pragma once

#include <stdexcept>
#include <string>

namespace dpi::tool {

enum ExitCode : int {
  kExitOk = 0,
  kExitUsage = 1,
  kExitBadInput = 2,   // CSV rows
  kExitBadBundle = 3,  // missing, damaged, newer
  kExitVerifyFailed = 4,
  kExitDevice = 5,  // no such device or store, it failed, or memory ran out
  kExitOther = 6,
};

/// Ends the command: main prints "dpi: <text>" on stderr and returns the code.
class CommandError : public std::runtime_error {
 public:
  CommandError(ExitCode code, const std::string& text) : std::runtime_error(text), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

}  // namespace dpi::tool
