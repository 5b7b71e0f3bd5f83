// Where the code that runs lies on disk: libdpi.so.1, or the program that the engine is linked into.
#pragma once

#include <string>

namespace dpi {

struct OwnFile {
  std::string path;         // absolute, links resolved where /proc can be read; empty = not known
  bool is_program = false;  // linked into the program itself
};

/// Found out once, unless there was no memory or no descriptor for it. Not a matter of the loader's names:
/// those may be relative, to a current directory that has changed since, and a program's is what its parent
/// called it; an absolute one stands in as long as /proc cannot be read.
OwnFile own_file();

/// Its folder, or empty.
std::string own_folder();

}  // namespace dpi
