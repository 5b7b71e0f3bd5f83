/// The device that a test program runs on. ctest registers a program once per device (dpi_test(... DEVICES
/// ref cpu)) and passes `--device=<name>`; test cases ask dpi::test::device(). By hand:
///
///     build/release/bin/tests/kernels_tests --device=cpu -tc='*order*'
#pragma once

#include <string>

namespace dpi::test {

/// "ref" unless the command line says otherwise.
const std::string& device();

/// The exit status that ctest shows as "skipped".
inline constexpr int kSkipExitCode = 77;

/// Ends the program as skipped once the running test case returns; the reason is printed. For a device that
/// this machine does not have: call it, then return from the test case. A failed check still wins over a
/// skip.
void skip_program(const std::string& reason);

}  // namespace dpi::test
