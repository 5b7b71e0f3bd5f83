#include "runtime/record/record_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "runtime/record/record_layout.hpp"

namespace dpi {

using namespace record_layout;

namespace {

Status failed(const std::string& path, int error) {
  return Status(Code::kIo, path + ": " + errno_text(error)).native(error);
}

uint64_t bundle_payload(const RecordSource& s) {
  return array_bytes(sizeof(BundleHead) + s.schema.size() + s.info.size());
}

/// Bytes of a file that holds no request.
constexpr off_t kNoRequest = sizeof(FileHead) + sizeof(FrameHead) + sizeof(EndFrame);

/// Some file systems have no locks.
Status not_locked(const std::string& path, int error) {
  if (error != EWOULDBLOCK) return failed(path, error);
  return invalid_argument(path + " is being written by another recorder");
}

/// OK: nothing is there (size -1), or an ended record file, or the beginning of one.
Status check_replaceable(const std::string& path, off_t* size) {
  *size = -1;
  const FileHandle file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.get() < 0) return errno == ENOENT ? Status() : failed(path, errno);
  struct stat about{};
  if (fstat(file.get(), &about) != 0) return failed(path, errno);
  *size = about.st_size;
  char magic[sizeof kMagic] = {};
  const bool regular = S_ISREG(about.st_mode);
  const ssize_t n = regular ? pread(file.get(), magic, sizeof magic, 0) : -1;
  if (n < 0 || std::memcmp(magic, kMagic, static_cast<size_t>(n)) != 0)
    return invalid_argument(path + " is there and is no record file; it is not replaced");
  return flock(file.get(), LOCK_EX | LOCK_NB) == 0 ? Status() : not_locked(path, errno);
}

Status make_way(const std::string& path) {
  const std::string older = path + ".1";
  off_t size = -1, older_size = -1;
  DPI_RETURN_IF_ERROR(check_replaceable(path, &size));
  DPI_RETURN_IF_ERROR(check_replaceable(older, &older_size));
  if (size < 0) return {};
  // What a full disk or a start without requests left takes no recording's place.
  if (size <= kNoRequest) return unlink(path.c_str()) == 0 ? Status() : failed(path, errno);
  return rename(path.c_str(), older.c_str()) == 0 ? Status() : failed(path, errno);
}

template <class T>
std::span<const std::byte> bytes_of_struct(const T& t) {
  return std::as_bytes(std::span(&t, 1));
}

}  // namespace

Result<std::unique_ptr<RecordFile>> RecordFile::create(const std::string& path, uint64_t number) {
  DPI_RETURN_IF_ERROR(make_way(path));
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return failed(path, errno);
  std::unique_ptr<RecordFile> file(new RecordFile(path, number, fd));
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) return not_locked(path, errno);
  Status begun = file->write_head();
  if (begun.ok()) return file;
  unlink(path.c_str());
  return begun;
}

RecordFile::RecordFile(std::string path, uint64_t number, int fd)
    : path_(std::move(path)), number_(number), process_(getpid()), file_(fd) {}

/// A forked child has the open file too, so that closing it here would leave it locked.
RecordFile::~RecordFile() {
  if (getpid() == process_) flock(file_.get(), LOCK_UN);
}

Status RecordFile::write_head() {
  FileHead head{};
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  head.version = kVersion;
  head.began_ms = wall_clock_ms();
  head.number = number_;
  head.digest = XXH3_64bits(&head, offsetof(FileHead, digest));
  return append(bytes_of_struct(head), {});
}

uint64_t RecordFile::bytes_of(const RecordSource& source, size_t payload) const {
  const uint64_t own = sizeof(FrameHead) + payload;
  return source.in_file == number_ ? own : own + sizeof(FrameHead) + bundle_payload(source);
}

uint64_t RecordFile::least_bytes(const RecordSource& source, size_t payload) {
  return sizeof(FileHead) + sizeof(FrameHead) + bundle_payload(source) + sizeof(FrameHead) + payload +
         sizeof(FrameHead) + sizeof(EndFrame);
}

bool RecordFile::has_room_for_bundle() const { return bundles_ < kMostBundles; }

Status RecordFile::write(RecordSource* source, std::span<std::byte> payload) {
  if (source->in_file != number_) DPI_RETURN_IF_ERROR(write_bundle(source));
  std::memcpy(payload.data() + offsetof(RequestHead, bundle), &source->index, sizeof source->index);
  DPI_RETURN_IF_ERROR(write_frame(kRequest, payload));
  ++requests_;
  return {};
}

Status RecordFile::write_bundle(RecordSource* source) {
  BundleHead head{};
  std::memcpy(head.bundle, source->bundle.data(), source->bundle.size());
  head.number = source->number;
  head.schema_digest = source->schema_digest;
  head.schema_bytes = static_cast<uint32_t>(source->schema.size());
  head.info_bytes = static_cast<uint32_t>(source->info.size());
  std::vector<std::byte> payload(bundle_payload(*source));
  std::memcpy(payload.data(), &head, sizeof head);
  std::memcpy(payload.data() + sizeof head, source->schema.data(), source->schema.size());
  std::memcpy(payload.data() + sizeof head + source->schema.size(), source->info.data(), source->info.size());
  DPI_RETURN_IF_ERROR(write_frame(kBundle, payload));
  source->in_file = number_;
  source->index = bundles_++;
  return {};
}

Status RecordFile::finish(uint64_t dropped) {
  const EndFrame end{requests_, dropped};
  return write_frame(kEnd, bytes_of_struct(end));
}

Status RecordFile::write_frame(uint32_t kind, std::span<const std::byte> payload) {
  FrameHead head{};
  head.kind = kind;
  head.length = payload.size();
  head.digest = XXH3_64bits(payload.data(), payload.size());
  head.head_digest = XXH3_64bits_withSeed(&head, offsetof(FrameHead, head_digest), end_);
  return append(bytes_of_struct(head), payload);
}

Status RecordFile::append(std::span<const std::byte> head, std::span<const std::byte> payload) {
  const uint64_t all = head.size() + payload.size();
  for (uint64_t done = 0; done < all;) {
    const uint64_t in_head = std::min<uint64_t>(done, head.size()), in_payload = done - in_head;
    iovec pieces[2] = {
        {const_cast<std::byte*>(head.data()) + in_head, head.size() - in_head},
        {const_cast<std::byte*>(payload.data()) + in_payload, payload.size() - in_payload},
    };
    const ssize_t n = pwritev(file_.get(), pieces, 2, static_cast<off_t>(end_ + done));
    if (n > 0) {
      done += static_cast<uint64_t>(n);
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    const int error = n < 0 ? errno : ENOSPC;
    if (ftruncate(file_.get(), static_cast<off_t>(end_)) != 0) return failed(path_, errno);
    return failed(path_, error);
  }
  end_ += all;
  return {};
}

}  // namespace dpi
