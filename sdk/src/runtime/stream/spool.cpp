#include "runtime/stream/spool.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "bundle/byte_source.hpp"
#include "bundle/user_block.hpp"

namespace dpi::stream {

namespace {

constexpr std::string_view kBundle = ".h5", kDelta = ".delta";
constexpr uint64_t kMostNumber = INT64_MAX;  // that an endpoint takes

Status io_error(const std::string& path, const char* what, int why) {
  return Status(why == ENOENT ? Code::kNotFound : Code::kIo, path + ": " + what + errno_text(why))
      .native(why);
}

struct CloseFolder {
  void operator()(DIR* d) const { closedir(d); }
};

/// v7.h5, v0008.delta: number and kind; 0 for any other name.
uint64_t number_in(std::string_view name, bool* whole) {
  *whole = name.ends_with(kBundle);
  const size_t end = *whole ? kBundle.size() : kDelta.size();
  if (!name.starts_with('v') || name.size() <= 1 + end || (!*whole && !name.ends_with(kDelta))) return 0;
  const std::string_view digits = name.substr(1, name.size() - 1 - end);
  uint64_t number = 0;
  const auto [last, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (fault != std::errc() || last != digits.data() + digits.size() || number > kMostNumber) return 0;
  return number;
}

Status read_hashes(SpoolFile* f) {
  if (!f->whole) {
    DPI_ASSIGN_OR_RETURN(const auto delta, Delta::open(f->path));
    f->base = delta->base();
    f->version = delta->version();
    return {};
  }
  auto source = ByteSource::open_file(f->path);
  if (!source.ok()) return std::move(source).status();
  DPI_ASSIGN_OR_RETURN(const UserBlock block, read_user_block(**source, FileKind::kBundle));
  DPI_ASSIGN_OR_RETURN(f->version, version_of(block));
  return {};
}

bool by_number(const SpoolFile& a, const SpoolFile& b) {
  return a.number != b.number ? a.number < b.number : a.whole < b.whole;
}

/// False: gone since, or no file.
bool look_at(SpoolFile* f) {
  struct stat s{};
  if (stat(f->path.c_str(), &s) != 0 || !S_ISREG(s.st_mode)) return false;
  const int64_t ns = int64_t{s.st_mtim.tv_sec} * 1'000'000'000 + s.st_mtim.tv_nsec;
  f->changed_ms = ns / 1'000'000;
  f->identity[0] = s.st_dev;
  f->identity[1] = s.st_ino;
  f->identity[2] = static_cast<uint64_t>(s.st_size);
  f->identity[3] = static_cast<uint64_t>(ns);
  return true;
}

}  // namespace

Result<std::unique_ptr<Spool>> Spool::open(const std::string& folder) {
  const std::string path = folder + "/.stream.lock";
  FileHandle lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (lock.get() < 0) return io_error(path, "cannot be opened: ", errno);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return io_error(path, "cannot be locked: ", errno);
    return invalid_argument(folder + ": another subscription writes into this folder");
  }
  std::unique_ptr<Spool> made(new Spool(folder, std::move(lock)));
  if (::unlink(made->part().c_str()) != 0 && errno != ENOENT)
    return io_error(made->part(), "cannot be removed: ", errno);
  return made;
}

Status Spool::refresh() {
  const std::unique_ptr<DIR, CloseFolder> open(opendir(folder_.c_str()));
  if (open == nullptr) return io_error(folder_, "", errno);
  std::vector<SpoolFile> found;
  for (errno = 0; const dirent* entry = readdir(open.get()); errno = 0) {
    SpoolFile f;
    f.number = number_in(entry->d_name, &f.whole);
    f.path = folder_ + "/" + entry->d_name;
    if (f.number == 0 || !look_at(&f)) continue;
    const auto known = std::find_if(files_.begin(), files_.end(), [&](const SpoolFile& k) {
      return k.path == f.path && std::equal(k.identity, std::end(k.identity), f.identity);
    });
    if (known != files_.end() && known->status.code() != Code::kIo)
      f = *known;
    else
      f.status = read_hashes(&f);
    found.push_back(std::move(f));
  }
  if (errno != 0) return io_error(folder_, "", errno);
  std::sort(found.begin(), found.end(), by_number);
  files_ = std::move(found);
  return {};
}

std::vector<const SpoolFile*> Spool::chain(const std::function<bool(const SpoolFile&)>& left_out) const {
  std::vector<const SpoolFile*> chain;
  for (const SpoolFile& f : files_) {
    if (!f.status.ok()) continue;
    if (f.whole && !left_out(f))
      chain.assign(1, &f);
    else if (!f.whole && !chain.empty() && f.base == chain.back()->version)
      chain.push_back(&f);
  }
  return chain;
}

Status Spool::write_part(std::span<const std::byte> bytes, int64_t timestamp_ms) const {
  const FileHandle file(::open(part().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (file.get() < 0) return io_error(part(), "cannot be created: ", errno);
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t n = ::write(file.get(), bytes.data() + at, bytes.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return io_error(part(), "cannot be written: ", n < 0 ? errno : ENOSPC);
    at += static_cast<size_t>(n);
  }
  if (timestamp_ms >= 0) {
    const timespec time{timestamp_ms / 1000, timestamp_ms % 1000 * 1'000'000};
    const timespec both[2] = {time, time};
    if (::futimens(file.get(), both) != 0) return io_error(part(), "cannot be given a time: ", errno);
  }
  if (::fsync(file.get()) != 0) return io_error(part(), "cannot be written to its device: ", errno);
  return {};
}

Result<uint64_t> Spool::append(std::span<const std::byte> bytes, const Delta& delta, int64_t timestamp_ms,
                               uint64_t number) {
  SpoolFile f;
  f.number = std::max(number, files_.empty() ? 0 : files_.back().number) + 1;
  if (f.number > kMostNumber)
    return invalid_argument(folder_ + ": no number is left above " + std::to_string(f.number - 1));
  f.path = folder_ + "/v" + std::to_string(f.number) + std::string(kDelta);
  f.base = delta.base();
  f.version = delta.version();
  const Status written = write_part(bytes, timestamp_ms);
  if (!written.ok()) {
    ::unlink(part().c_str());  // room for others where there is none
    return written;
  }
  if (std::rename(part().c_str(), f.path.c_str()) != 0) return io_error(f.path, "cannot be named: ", errno);
  const FileHandle folder(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0 || ::fsync(folder.get()) != 0) return io_error(folder_, "cannot be written: ", errno);
  look_at(&f);
  const uint64_t made = f.number;
  files_.push_back(std::move(f));
  return made;
}

int64_t Spool::drop_below(const SpoolFile& bundle) {
  const uint64_t number = bundle.number;
  for (const SpoolFile& f : files_)
    if (!f.whole && f.number == number) return 0;
  return std::erase_if(files_, [&](const SpoolFile& f) {
    return !f.whole && f.number < number && ::unlink(f.path.c_str()) == 0;
  });
}

}  // namespace dpi::stream
