#include "store/tiered/row_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/clock.hpp"

namespace dpi::tiered {

namespace {

constexpr char kMagic[8] = {'D', 'P', 'I', 'R', 'O', 'W', 'S', '1'};
constexpr uint32_t kVersion = 1;
constexpr uint64_t kNoRows = 0xcbf29ce484222325u;
constexpr int64_t kMostRows = int64_t{1} << 40;
constexpr int64_t kMostStride = int64_t{1} << 20;

struct Header {
  char magic[8];
  uint32_t version;
  int32_t dtype;
  int64_t rows;
  int64_t dim;
  int64_t stride;
  uint64_t digest;
  char name[64];
  int64_t done;
  uint64_t checksum;
};
static_assert(sizeof(Header) == 128);

/// FNV-1a over words of four bytes: against damage, not against people.
uint64_t digest_of(uint64_t so_far, const std::byte* bytes, size_t n) {
  for (size_t i = 0; i < n; i += 4) {
    uint32_t word = 0;
    std::memcpy(&word, bytes + i, std::min<size_t>(4, n - i));
    so_far = (so_far ^ word) * 0x100000001b3u;
  }
  return so_far;
}

Status io_error(const std::string& path, const char* what, int code) {
  return Status(Code::kIo, path + ": " + what + ": " + std::generic_category().message(code)).native(code);
}

Status check_spec(const std::string& path, const RowFileSpec& s) {
  if (s.table.size() < sizeof(Header::name) && s.rows >= 0 && s.rows <= kMostRows && s.dim > 0 &&
      s.stride > 0 && s.stride <= kMostStride && s.stride % 4 == 0)
    return {};
  return invalid_argument(path + ": table '" + s.table + "' of " + std::to_string(s.rows) + " rows of " +
                          std::to_string(s.stride) + " bytes does not fit a row file");
}

Header header_of(const RowFileSpec& s, int64_t done, uint64_t digest) {
  Header h{};
  std::memcpy(h.magic, kMagic, sizeof kMagic);
  h.version = kVersion;
  h.dtype = s.dtype;
  h.rows = s.rows;
  h.dim = s.dim;
  h.stride = s.stride;
  h.digest = digest;
  std::memcpy(h.name, s.table.data(), s.table.size());
  h.done = done;
  h.checksum = digest_of(kNoRows, reinterpret_cast<const std::byte*>(&h), offsetof(Header, checksum));
  return h;
}

Status read_all(const std::string& path, int fd, std::byte* to, size_t n, int64_t at) {
  while (n > 0) {
    const ssize_t got = ::pread(fd, to, n, at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return io_error(path, "cannot be read", errno);
    if (got == 0) return bad_model(path + ": cut off at byte " + std::to_string(at));
    to += got, at += got, n -= static_cast<size_t>(got);
  }
  return {};
}

Status write_all(const std::string& path, int fd, const std::byte* from, size_t n, int64_t at) {
  while (n > 0) {
    const ssize_t put = ::pwrite(fd, from, n, at);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return io_error(path, "cannot be written", put < 0 ? errno : ENOSPC);
    from += put, at += put, n -= static_cast<size_t>(put);
  }
  return {};
}

/// The header, when it is whole and says what the spec says.
Result<Header> read_header(const std::string& path, int fd, const RowFileSpec& spec) {
  Header h{};
  DPI_RETURN_IF_ERROR(read_all(path, fd, reinterpret_cast<std::byte*>(&h), sizeof h, 0));
  if (std::memcmp(h.magic, kMagic, sizeof kMagic) != 0) return bad_model(path + ": not a row file");
  if (h.version != kVersion)
    return unsupported(path + ": row file of format " + std::to_string(h.version) + ", this library reads " +
                       std::to_string(kVersion));
  const Header expected = header_of(spec, h.done, h.digest);
  if (h.checksum != digest_of(kNoRows, reinterpret_cast<const std::byte*>(&h), offsetof(Header, checksum)))
    return bad_model(path + ": the header is damaged");
  if (std::memcmp(&h, &expected, sizeof h) != 0 || h.done < 0 || h.done > h.rows)
    return bad_model(path + ": holds another table than '" + spec.table + "', or of another shape");
  return h;
}

Status check_length(const std::string& path, int fd, const RowFileSpec& spec, int64_t rows) {
  struct stat s{};
  if (::fstat(fd, &s) != 0) return io_error(path, "cannot be looked at", errno);
  const int64_t least = static_cast<int64_t>(sizeof(Header)) + rows * spec.stride;
  if (s.st_size >= least) return {};
  return bad_model(path + ": " + std::to_string(s.st_size) + " bytes, but " + std::to_string(rows) +
                   " rows need " + std::to_string(least));
}

}  // namespace

Result<RowFileWriter> RowFileWriter::open(const std::string& path, const RowFileSpec& spec) {
  DPI_RETURN_IF_ERROR(check_spec(path, spec));
  RowFileWriter w(path, spec, FileHandle(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)));
  if (w.file_.get() < 0) return io_error(path, "cannot be opened", errno);
  struct stat s{};
  if (::fstat(w.file_.get(), &s) != 0) return io_error(path, "cannot be looked at", errno);
  w.digest_ = kNoRows;
  if (s.st_size == 0) {
    DPI_RETURN_IF_ERROR(w.note());
    return w;
  }
  DPI_ASSIGN_OR_RETURN(const Header h, read_header(path, w.file_.get(), spec));
  DPI_RETURN_IF_ERROR(check_length(path, w.file_.get(), spec, h.done));
  w.done_ = h.done;
  w.digest_ = h.digest;
  return w;
}

Status RowFileWriter::note() {
  const Header h = header_of(spec_, done_, digest_);
  DPI_RETURN_IF_ERROR(write_all(path_, file_.get(), reinterpret_cast<const std::byte*>(&h), sizeof h, 0));
  if (::fdatasync(file_.get()) != 0) return io_error(path_, "cannot be made durable", errno);
  return {};
}

Status RowFileWriter::append(std::span<const std::byte> rows) {
  const auto n = static_cast<int64_t>(rows.size()) / spec_.stride;
  if (n * spec_.stride != static_cast<int64_t>(rows.size()) || n > spec_.rows - done_)
    return internal_error(path_ + ": " + std::to_string(rows.size()) + " bytes behind row " +
                          std::to_string(done_));
  const int64_t at = static_cast<int64_t>(sizeof(Header)) + done_ * spec_.stride;
  DPI_RETURN_IF_ERROR(write_all(path_, file_.get(), rows.data(), rows.size(), at));
  // The rows first: a header must not speak of rows that are not there.
  if (::fdatasync(file_.get()) != 0) return io_error(path_, "cannot be made durable", errno);
  digest_ = digest_of(digest_, rows.data(), rows.size());
  done_ += n;
  return note();
}

Result<RowFile> RowFile::open(const std::string& path, const RowFileSpec& spec) {
  DPI_RETURN_IF_ERROR(check_spec(path, spec));
  RowFile f(path, spec, FileHandle(::open(path.c_str(), O_RDONLY | O_CLOEXEC)));
  if (f.file_.get() < 0) return io_error(path, "cannot be opened", errno);
  DPI_ASSIGN_OR_RETURN(const Header h, read_header(path, f.file_.get(), spec));
  if (h.done != h.rows)
    return bad_model(path + ": only " + std::to_string(h.done) + " of " + std::to_string(h.rows) +
                     " rows were written");
  DPI_RETURN_IF_ERROR(check_length(path, f.file_.get(), spec, spec.rows));
  f.digest_ = h.digest;
  return f;
}

Status RowFile::read(int64_t row, std::byte* to) const {
  return read_all(path_, file_.get(), to, static_cast<size_t>(spec_.stride),
                  static_cast<int64_t>(sizeof(Header)) + row * spec_.stride);
}

Status RowFile::verify() const {
  const int64_t at_once = std::max<int64_t>(1, (int64_t{1} << 20) / spec_.stride);
  std::vector<std::byte> block(static_cast<size_t>(at_once * spec_.stride));
  uint64_t digest = kNoRows;
  for (int64_t row = 0; row < spec_.rows; row += at_once) {
    const auto bytes = static_cast<size_t>(std::min(at_once, spec_.rows - row) * spec_.stride);
    DPI_RETURN_IF_ERROR(read_all(path_, file_.get(), block.data(), bytes,
                                 static_cast<int64_t>(sizeof(Header)) + row * spec_.stride));
    digest = digest_of(digest, block.data(), bytes);
  }
  return digest == digest_ ? Status() : bad_model(path_ + ": the rows are damaged");
}

Status RowFileSource::fetch(const FetchRequest& request) {
  const RowFile& file = files_[static_cast<size_t>(request.table)];
  for (size_t i = 0; i < request.keys.size(); ++i) {
    const int64_t row = request.keys[i];
    if (row < 0 || row >= file.rows()) continue;
    if (request.deadline_ns != 0 && i % 16 == 0 && monotonic_ns() >= request.deadline_ns)
      return {Code::kTimeout, "the deadline passed while rows were read"};
    DPI_RETURN_IF_ERROR(file.read(row, request.rows[i]));
    request.found[i / 64] |= uint64_t{1} << (i % 64);
  }
  return {};
}

}  // namespace dpi::tiered
