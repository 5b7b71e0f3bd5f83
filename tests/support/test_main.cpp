// doctest's main for every test program, with one more flag: --device=NAME (device.hpp).
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "support/device.hpp"

namespace dpi::test {
namespace {

std::string g_device = "ref";
std::string g_skip_reason;

}  // namespace

const std::string& device() { return g_device; }

void skip_program(const std::string& reason) { g_skip_reason = reason; }

}  // namespace dpi::test

int main(int argc, char** argv) {
  constexpr std::string_view kDeviceFlag = "--device=";
  std::vector<char*> rest;
  for (int i = 0; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg.starts_with(kDeviceFlag)) {
      dpi::test::g_device = arg.substr(kDeviceFlag.size());
    } else {
      rest.push_back(argv[i]);
    }
  }
  doctest::Context context;
  context.applyCommandLine(static_cast<int>(rest.size()), rest.data());
  const int result = context.run();
  if (result == 0 && !dpi::test::g_skip_reason.empty()) {
    std::printf("skipped: %s\n", dpi::test::g_skip_reason.c_str());
    return dpi::test::kSkipExitCode;
  }
  return result;
}
