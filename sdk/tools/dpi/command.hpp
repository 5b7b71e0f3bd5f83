// What the commands of the program `dpi` share: exit codes, the error that carries one, the common flags. One
// file per command; each has an add_<command> that declares its flags and stores what is to be run.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;  // its header takes longer to compile than most of our files: only what declares flags includes it
}

namespace dpi::tool {

enum ExitCode : int {
  kExitOk = 0,
  kExitUsage = 1,
  kExitBadInput = 2,   // CSV rows
  kExitBadBundle = 3,  // missing, damaged, newer
  kExitVerifyFailed = 4,
  kExitDevice = 5,  // no such device, it failed, or memory ran out
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

/// --device, --precision, --threads, --option: the same on every command that plans or runs a model.
struct CommonFlags {
  std::string device;
  std::string precision;
  int threads = 0;
  std::vector<std::string> options;  // key=value

  /// All as (key, value) in the order given.
  std::vector<std::pair<std::string, std::string>> pairs() const;
};
void add_common_flags(CLI::App* app, CommonFlags* flags);

using Command = std::function<int()>;
void add_inspect(CLI::App* app, Command* run);
void add_plan(CLI::App* app, Command* run);
void add_predict(CLI::App* app, Command* run);
void add_verify(CLI::App* app, Command* run);
void add_bench(CLI::App* app, Command* run);
void add_devices(CLI::App* app, Command* run);
void add_keygen(CLI::App* app, Command* run);
void add_sign(CLI::App* app, Command* run);

}  // namespace dpi::tool
