// Where plugins are looked for, and whose files are trusted. One rule for the library and for programs that
// the engine is linked into; nothing of it is compiled in, so that a tree of files may be moved.
//
//   1. option backend_dir (of dpi_devices_json and `dpi devices`: the folder given)
//   2. environment DPI_BACKEND_DIR, not in set-user-id programs
//   3. dpi/backends-1 beside libdpi.so.1; of a program in bin: beside the libdpi.so.1 that is installed with
//   it
//
// A folder must be an absolute path; the current directory is never looked at. A plugin is code that runs
// with the process's rights, so a folder or file that somebody else than root and the process's user could
// change is refused; of a link, also the folder that it leads into. The folders above are not looked at: who
// may change those may change the library too.
#pragma once

#include <string>
#include <vector>

namespace dpi::backend {

struct PluginFolder {
  std::string path;
  std::string origin;   // "option backend_dir", "DPI_BACKEND_DIR", "installation"
  std::string problem;  // why nothing is loaded from it, a phrase with a verb; empty: it is searched
  std::string advice;   // what to do about it; empty where nothing is wrong with a folder that is there
};

/// The folders in order, each looked at now.
std::vector<PluginFolder> plugin_folders(const std::string& backend_dir);

/// Why a file or folder that exists is not trusted, or empty. *advice says what to do.
std::string distrust(const std::string& path, std::string* advice);

}  // namespace dpi::backend
