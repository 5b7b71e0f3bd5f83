#include "runtime/endpoint/update.hpp"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <string_view>

namespace dpi {

namespace {

struct CloseFolder {
  void operator()(DIR* d) const { closedir(d); }
};

/// The number in v<number>.h5, 0 for any other name.
uint64_t version_in(std::string_view name) {
  constexpr std::string_view kEnd = ".h5";
  if (!name.starts_with('v') || !name.ends_with(kEnd) || name.size() <= 1 + kEnd.size()) return 0;
  const std::string_view digits = name.substr(1, name.size() - 1 - kEnd.size());
  uint64_t number = 0;
  const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return fault == std::errc() && end == digits.data() + digits.size() ? number : 0;
}

}  // namespace

Result<std::unique_ptr<Model>> build_model(const Update& update, const ModelOptions& options,
                                           const Contract* callers) {
  if (update.base != 0)
    return unsupported(update.path + ": changes of version " + std::to_string(update.base) +
                       ": this release takes whole bundles only");
  return Model::load(update.path, options, [callers](const Manifest& manifest) {
    return callers != nullptr ? check_contract(*callers, contract_of(manifest)) : Status();
  });
}

Result<std::vector<FoundUpdate>> list_updates(const std::string& folder) {
  const std::unique_ptr<DIR, CloseFolder> open(opendir(folder.c_str()));
  if (open == nullptr) {
    const int why = errno;
    return Status(why == ENOENT ? Code::kNotFound : Code::kIo, folder + ": " + std::strerror(why))
        .native(why);
  }
  std::vector<FoundUpdate> found;
  for (errno = 0; const dirent* entry = readdir(open.get()); errno = 0) {
    FoundUpdate f;
    f.update.number = version_in(entry->d_name);
    if (f.update.number == 0) continue;
    f.update.path = folder + "/" + entry->d_name;
    struct stat s{};
    if (stat(f.update.path.c_str(), &s) != 0 || !S_ISREG(s.st_mode)) continue;  // gone since, or no file
    f.device = s.st_dev;
    f.inode = s.st_ino;
    f.bytes = s.st_size;
    f.changed_ns = int64_t{s.st_mtim.tv_sec} * 1'000'000'000 + s.st_mtim.tv_nsec;
    found.push_back(std::move(f));
  }
  if (errno != 0) return Status(Code::kIo, folder + ": " + std::strerror(errno)).native(errno);
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.update.number > b.update.number; });
  return found;
}

}  // namespace dpi
