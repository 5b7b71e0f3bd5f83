#include "base/own_file.hpp"

#include <dlfcn.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>

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

/// Resolves an absolute path; "" for a relative one, which may refer to another current directory.
std::string real_path(const char* path) {
  if (path == nullptr || path[0] != '/') return "";
  const std::unique_ptr<char, decltype(&std::free)> found(realpath(path, nullptr), &std::free);
  return found != nullptr ? found.get() : "";
}

// Without /proc: as the loader was told.
std::string file_loaded_at(void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 ? real_path(info.dli_fname) : "";
}

std::string program_file() {
  char exe[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe));
  if (n > 0) return without_mark(std::string(exe, static_cast<size_t>(n)));
  // The kernel gives every value as a number, addresses too. NOLINTNEXTLINE(performance-no-int-to-ptr)
  return real_path(reinterpret_cast<const char*>(getauxval(AT_EXECFN)));
}

/// certain: not by the loader's names.
OwnFile find_own_file(bool* certain) {
  OwnFile own;
  own.path = file_mapped_at(reinterpret_cast<uintptr_t>(&find_own_file));
  *certain = !own.path.empty();
  if (!*certain) own.path = file_loaded_at(reinterpret_cast<void*>(&find_own_file));
  own.is_program = !own.path.empty() && own.path == program_file();
  return own;
}

}  // namespace

OwnFile own_file() {
  static std::atomic<const OwnFile*> found{nullptr};  // what it points to outlives every thread
  if (const OwnFile* own = found.load(std::memory_order_acquire); own != nullptr) return *own;
  bool certain = false;
  OwnFile own = find_own_file(&certain);
  if (!certain) return own;  // the next call tries again
  auto fresh = std::make_unique<const OwnFile>(own);
  const OwnFile* none = nullptr;
  if (found.compare_exchange_strong(none, fresh.get(), std::memory_order_acq_rel)) {
    [[maybe_unused]] const OwnFile* const kept = fresh.release();
  }
  return own;
}

std::string own_folder() {
  const std::string path = own_file().path;
  return path.empty() ? path : path.substr(0, path.find_last_of('/'));
}

}  // namespace dpi
