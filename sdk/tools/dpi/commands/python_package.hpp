// Commands whose work is the Python package's, the only writer of the formats, in a process of its own:
// nothing that is shipped links HDF5's library.
#pragma once

#include <string>
#include <vector>

namespace dpi::tool {

/// Runs `python -m dpi_export COMMAND WORDS`, the package beside this program first. Returns the exit code;
/// the package has told why. CommandError when nothing can be started.
int run_package(const std::string& python, const std::string& command, const std::vector<std::string>& words);

}  // namespace dpi::tool
