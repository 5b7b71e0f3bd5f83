// doctest's main for every test program, with one more flag: --device=NAME (device.hpp). A run whose filters
// leave no test case fails: doctest takes it for a success, and a test that was renamed would go unnoticed.
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
bool g_none_left = false;

/// Sees how many test cases the filters leave.
struct Counter : doctest::IReporter {
  explicit Counter(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats& s) override {
    g_none_left = s.numTestCasesPassingFilters == 0;
  }
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};

}  // namespace

const std::string& device() { return g_device; }

void skip_program(const std::string& reason) { g_skip_reason = reason; }

}  // namespace dpi::test

REGISTER_LISTENER("counter", 1, dpi::test::Counter);

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
  if (dpi::test::g_none_left) {
    std::fprintf(stderr, "no test case passes the filters\n");
    return 1;
  }
  if (result == 0 && !dpi::test::g_skip_reason.empty()) {
    std::printf("skipped: %s\n", dpi::test::g_skip_reason.c_str());
    return dpi::test::kSkipExitCode;
  }
  return result;
}
