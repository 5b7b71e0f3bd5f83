/// The tests' scripts that write bundles with h5py, numpy and xxhash.
#pragma once

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "support/device.hpp"

namespace dpi::test {

/// False where the scripts cannot run: the program ends as skipped then.
inline bool has_python() {
  if (std::system("/usr/bin/python3 -c 'import h5py, numpy, xxhash' 2>/dev/null") == 0) return true;
  skip_program("python3 with h5py, numpy and xxhash is not installed");
  return false;
}

/// Runs a script of this tree on one file or folder; true when it ended well. What went wrong is on stderr.
inline bool run_script(const std::string& script, const std::string& argument) {
  return std::system(("/usr/bin/python3 -B '" + script + "' '" + argument + "' >/dev/null").c_str()) == 0;
}

/// The same for what a whole test program needs: false where Python is missing, which skips the program. A
/// script that fails is a failure of the test that asked, not one test less.
inline bool made_by(const std::string& script, const std::string& folder) {
  if (!has_python()) return false;
  if (run_script(script, folder)) return true;
  throw std::runtime_error(script + " failed; its message is on stderr");
}

}  // namespace dpi::test
