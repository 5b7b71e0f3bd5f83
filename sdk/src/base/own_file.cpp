#include "base/own_file.hpp"

#include <unistd.h>

#include <climits>
#include <cstdint>
#include <cstdlib>
#include <fstream>

namespace dpi {
namespace {

// The system marks a file that was replaced while it runs (a package was upgraded).
std::string without_mark(std::string path) {
  const std::string mark = " (deleted)";
  if (path.ends_with(mark)) path.resize(path.size() - mark.size());
  return path;
}

// The path of the mapping that holds `address`: "from-to rights offset device inode   path".
std::string file_mapped_at(uintptr_t address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    char* end = nullptr;
    const uintptr_t from = std::strtoull(line.c_str(), &end, 16);
    if (*end != '-' || address < from || address >= std::strtoull(end + 1, nullptr, 16)) continue;
    const size_t path = line.find('/');
    return path == std::string::npos ? "" : without_mark(line.substr(path));
  }
  return "";
}

std::string program_file() {
  char exe[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe));
  return n > 0 ? without_mark(std::string(exe, static_cast<size_t>(n))) : "";
}

OwnFile find_own_file() {
  OwnFile own;
  own.path = file_mapped_at(reinterpret_cast<uintptr_t>(&find_own_file));
  own.is_program = !own.path.empty() && own.path == program_file();
  return own;
}

}  // namespace

const OwnFile& own_file() {
  static const OwnFile* const kOwn = new OwnFile(find_own_file());  // outlives every thread
  return *kOwn;
}

std::string own_folder() {
  const std::string& path = own_file().path;
  return path.empty() ? path : path.substr(0, path.find_last_of('/'));
}

}  // namespace dpi
