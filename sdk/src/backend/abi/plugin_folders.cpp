#include "backend/abi/plugin_folders.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/own_file.hpp"

namespace dpi::backend {
namespace {

constexpr const char* kSubfolder = "dpi/backends-1";

std::string octal(mode_t mode) {
  std::string text = "0";
  for (int shift = 6; shift >= 0; shift -= 3) text += static_cast<char>('0' + ((mode >> shift) & 7));
  return text;
}

// DPI_LIBRARIES_FROM_PROGRAMS: from the folder of programs to that of libraries, as they are installed.
std::string installed_folder() {
  const std::string own = own_folder();
  if (own.empty()) return "";
  const std::filesystem::path libraries = own_file().is_program
                                              ? std::filesystem::path(own) / DPI_LIBRARIES_FROM_PROGRAMS
                                              : std::filesystem::path(own);
  return (libraries / kSubfolder).lexically_normal().string();
}

void look_at(PluginFolder* folder) {
  if (!folder->path.starts_with('/')) {
    folder->problem = "is not an absolute path";
    folder->advice = "name the folder from / on";
    return;
  }
  struct stat found{};
  if (stat(folder->path.c_str(), &found) != 0) {
    folder->problem = std::strerror(errno);
  } else if (!S_ISDIR(found.st_mode)) {
    folder->problem = "is not a folder";
    folder->advice = "name the folder that the plugin lies in";
  } else {
    folder->problem = distrust(folder->path, &folder->advice);
  }
}

}  // namespace

std::string distrust(const std::string& path, std::string* advice) {
  struct stat found{};
  if (stat(path.c_str(), &found) != 0) return "";
  if ((found.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    *advice = "remove that right (chmod go-w)";
    return std::string("may be written to by ") +
           ((found.st_mode & S_IWOTH) != 0 ? "everybody" : "its group") + " (mode " + octal(found.st_mode) +
           ")";
  }
  if (found.st_uid != 0 && found.st_uid != geteuid()) {
    *advice = "change its owner to one of the two (chown)";
    return "belongs to user " + std::to_string(found.st_uid) + ", neither root nor the process's user " +
           std::to_string(geteuid());
  }
  return "";
}

std::vector<PluginFolder> plugin_folders(const std::string& backend_dir) {
  std::vector<PluginFolder> folders;
  if (!backend_dir.empty()) folders.push_back({backend_dir, "option backend_dir", "", ""});
  if (const char* env = secure_getenv("DPI_BACKEND_DIR"); env != nullptr && *env != '\0') {
    folders.push_back({env, "DPI_BACKEND_DIR", "", ""});
  }
  const std::string installed = installed_folder();
  const bool named =
      std::any_of(folders.begin(), folders.end(), [&](const auto& f) { return f.path == installed; });
  if (!installed.empty() && !named) folders.push_back({installed, "installation", "", ""});
  for (PluginFolder& folder : folders) look_at(&folder);
  return folders;
}

}  // namespace dpi::backend
