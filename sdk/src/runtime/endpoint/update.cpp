#include "runtime/endpoint/update.hpp"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "bundle/byte_source.hpp"
#include "bundle/user_block.hpp"

namespace dpi {

namespace {

struct CloseFolder {
  void operator()(DIR* d) const { closedir(d); }
};

/// Number and kind of a file named as updates are; number 0 for any other name.
FoundUpdate read_name(std::string_view name) {
  FoundUpdate f;
  f.is_delta = name.ends_with(".delta");
  const std::string_view end = f.is_delta ? ".delta" : ".h5";
  if (!name.starts_with('v') || !name.ends_with(end) || name.size() <= 1 + end.size()) return f;
  const std::string_view digits = name.substr(1, name.size() - 1 - end.size());
  uint64_t number = 0;
  const auto [stop, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (fault == std::errc() && stop == digits.data() + digits.size()) f.number = number;
  return f;
}

}  // namespace

Update Update::of_file(const std::string& path, uint64_t number) {
  Update u;
  u.path = path;
  u.number = number;
  const auto file = ByteSource::open_file(path);
  const auto kind = file.ok() ? kind_of(**file) : Result<FileKind>(FileKind::kBundle);
  if (kind.ok() && *kind == FileKind::kDelta)
    u.deltas.push_back(path);
  else
    u.whole = path;  // what is wrong with it, its reader says
  return u;
}

Result<std::unique_ptr<Model>> build_model(const std::shared_ptr<Bundle>& bundle, const std::string& path,
                                           const ModelOptions& options, const Contract* callers) {
  return Model::load(
      path, options,
      [callers](const Manifest& manifest) {
        return callers != nullptr ? check_contract(*callers, contract_of(manifest)) : Status();
      },
      [&bundle]() -> Result<std::shared_ptr<Bundle>> { return bundle; });
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
    FoundUpdate f = read_name(entry->d_name);
    if (f.number == 0) continue;
    f.path = folder + "/" + entry->d_name;
    struct stat s{};
    if (stat(f.path.c_str(), &s) != 0 || !S_ISREG(s.st_mode)) continue;  // gone since, or no file
    f.device = s.st_dev;
    f.inode = s.st_ino;
    f.bytes = s.st_size;
    f.changed_ns = int64_t{s.st_mtim.tv_sec} * 1'000'000'000 + s.st_mtim.tv_nsec;
    found.push_back(std::move(f));
  }
  if (errno != 0) return Status(Code::kIo, folder + ": " + std::strerror(errno)).native(errno);
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::pair(a.number, a.is_delta) > std::pair(b.number, b.is_delta);
  });
  return found;
}

}  // namespace dpi
