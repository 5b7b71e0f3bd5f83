#include "sdk/tools/dpi/commands/python_package.hpp"

#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/own_file.hpp"
#include "sdk/tools/dpi/shared/command_error.hpp"

namespace dpi::tool {

namespace {

// The package beside this program goes first: it writes the format that this program reads. Python's own
// first entry for -c, the current folder, goes: code from there is not run.
constexpr const char* kScript = R"(import sys
sys.path[:] = [p for p in [sys.argv.pop(1)] + sys.path if p]
try:
    from dpi_export.cli import main
except ImportError as e:
    print(f"dpi: {sys.argv[1]} needs the Python package dpi_export and what it imports: {e}", file=sys.stderr)
    print("dpi: Debian has python3-numpy, python3-h5py, python3-xxhash (and python3-cryptography to sign); "
          "PYTHONPATH or --python say where the rest is", file=sys.stderr)
    sys.exit(127)
try:
    sys.exit(main(sys.argv[1:]))
except Exception as e:  # 1 is what the package says of a file
    print(f"dpi: {sys.argv[1]}: {type(e).__name__}: {e}", file=sys.stderr)
    sys.exit(127)
)";

/// <prefix>/share/dpi/python of an installation, "" where this program was not installed.
std::string shipped_package() {
  const std::string program = own_file().path;
  const size_t bin = program.rfind("/bin/");
  if (bin == std::string::npos) return "";
  const std::string folder = program.substr(0, bin) + "/share/dpi/python";
  struct stat found{};
  return stat((folder + "/dpi_export").c_str(), &found) == 0 ? folder : "";
}

int wait_for(pid_t child, const std::string& command) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw CommandError(kExitOther, command + ": cannot wait: " + std::strerror(errno));
  }
  return status;
}

}  // namespace

int run_package(const std::string& python, const std::string& command, const std::vector<std::string>& more) {
  std::vector<std::string> words = {python, "-B", "-c", kScript, shipped_package(), command};
  words.insert(words.end(), more.begin(), more.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, python.c_str(), nullptr, nullptr, argv.data(), environ);
  if (failed != 0)
    throw CommandError(kExitOther, command + " runs the Python package dpi_export, and '" + python +
                                       "' cannot be started (" + std::strerror(failed) +
                                       "); --python names another interpreter");
  const int status = wait_for(child, command);
  if (WIFSIGNALED(status))
    throw CommandError(kExitOther, command + " was ended by signal " + std::to_string(WTERMSIG(status)));
  const int code = WEXITSTATUS(status);  // the package's: 1 a check failed, 2 wrong use; it has told why
  return code == 0 ? kExitOk : code == 1 ? kExitBadBundle : code == 2 ? kExitUsage : kExitOther;
}

}  // namespace dpi::tool
